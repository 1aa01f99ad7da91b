"""The options of a session, from the command line or their ini twins, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_agentguard._core import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the options of ``design §7`` say for this session."""

    only: bool = False
    dialects: tuple[str, ...] = ()
    level: str = "should"
    strict: bool = False
    jobs: int = limits.JOBS
    seed: int | None = None
    json: Path | None = None
    artifacts: Path | None = None
    unicode: bool = True

    @classmethod
    def of(cls, config: pytest.Config) -> Settings:
        """The settings of ``config``; a value out of range is a usage error that names the option."""
        jobs = _number(config, "jobs", limits.JOBS)
        if jobs < 1:
            raise pytest.UsageError(f"--agentguard-jobs takes a number from 1, not {jobs}")
        level = _value(config, "level") or "should"
        if level not in ("must", "should", "may"):
            raise pytest.UsageError(f"--agentguard-level takes must, should or may, not {level!r}")
        seed = _value(config, "seed")
        return cls(
            only=bool(_value(config, "only")),
            dialects=tuple(config.getoption("agentguard_dialect") or config.getini("agentguard_dialects")),
            level=level,
            strict=bool(_value(config, "strict")),
            jobs=jobs,
            seed=None if seed in (None, "") else _number(config, "seed", 0),
            json=_path(config, "json"),
            artifacts=_path(config, "artifacts"),
            unicode=_unicode(config),
        )


def _value(config: pytest.Config, name: str) -> Any:
    given = config.getoption(f"agentguard_{name}", None)
    return config.getini(f"agentguard_{name}") if given is None else given


def _number(config: pytest.Config, name: str, default: int) -> int:
    value = _value(config, name)
    if value in (None, ""):
        return default
    try:
        return int(value)
    except ValueError:
        raise pytest.UsageError(f"--agentguard-{name} takes a whole number, not {value!r}") from None


def _path(config: pytest.Config, name: str) -> Path | None:
    value = _value(config, name)
    return config.invocation_params.dir / value if value else None


def _unicode(config: pytest.Config) -> bool:
    """Whether the terminal has Unicode, by its encoding."""
    import sys

    reporter = config.pluginmanager.get_plugin("terminalreporter")
    stream = getattr(getattr(reporter, "_tw", None), "_file", sys.stdout)
    try:
        "✗·✓…".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
