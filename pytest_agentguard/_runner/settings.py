"""What a host tells its warm parent on the command line."""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from pytest_agentguard._core import limits
from pytest_agentguard._core.contracts import Adapter
from pytest_agentguard._runner.orders import as_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the agent is. ``control`` is the inherited socket; ``fresh`` leaves the import to each run."""

    control: int
    spec: str
    root: str
    path: tuple[str, ...] = ()
    import_seconds: float = limits.IMPORT_SECONDS
    fresh: bool = False

    def command(self) -> list[str]:
        """The command line of a warm parent with these settings."""
        settings = as_json(dataclasses.asdict(self))
        return [sys.executable, "-P", "-m", "pytest_agentguard._runner.warm", settings]

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The settings of a command line."""
        data = json.loads(text)
        return cls(**{**data, "path": tuple(data["path"])})

    def load(self) -> Adapter:
        """Import the agent and let it prepare itself."""
        from pytest_agentguard._runner.load import load

        adapter = load(self.spec, Path(self.root), self.path)
        if adapter.prepare is not None:
            adapter.prepare()
        return adapter
