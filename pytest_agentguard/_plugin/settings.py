"""The options of a session, from the command line or their ini twins, checked."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_agentguard._core import limits

LEVEL = "should"  # violations of this level or worse fail, unless told otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the options of ``design §7`` say for this session."""

    only: bool = False
    dialects: tuple[str, ...] = ()
    level: str = LEVEL
    strict: bool = False
    jobs: int = limits.JOBS
    seed: int | None = None
    json: Path | None = None
    artifacts: Path | None = None

    @classmethod
    def of(cls, config: pytest.Config) -> Settings:
        """The settings of ``config``; a value out of range is a usage error that names the option."""
        jobs = _number(config, "jobs", limits.JOBS)
        if jobs < 1:
            raise pytest.UsageError(f"--agentguard-jobs takes a number from 1, not {jobs}")
        level = _value(config, "level") or LEVEL
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
        )

    def check_targets(self) -> None:
        """Raise ``pytest.UsageError`` where what is to be written could not be, before anything runs."""
        if self.json is not None:
            if self.json.is_dir():
                raise pytest.UsageError(f"--agentguard-json takes a file, and {self.json} is a folder")
            _check_folder("--agentguard-json", self.json.parent)
        if self.artifacts is not None:
            _check_folder("--agentguard-artifacts", self.artifacts)


def _value(config: pytest.Config, name: str) -> Any:
    given = config.getoption(f"agentguard_{name}", None)
    if given is not None:
        return given
    try:
        return config.getini(f"agentguard_{name}")
    except (TypeError, ValueError, pytest.UsageError) as problem:  # a value of the wrong type
        raise pytest.UsageError(f"agentguard_{name}: {problem}") from None


def _number(config: pytest.Config, name: str, default: int) -> int:
    value = _value(config, name)
    return default if value in (None, "") else int(value)


def _check_folder(option: str, folder: Path) -> None:
    """``folder`` can be written to, or made."""
    there = next(part for part in (folder, *folder.parents) if os.path.lexists(part))
    if not there.is_dir():
        raise pytest.UsageError(f"{option}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise pytest.UsageError(f"{option}: {there} cannot be written to")


def _path(config: pytest.Config, name: str) -> Path | None:
    value = _value(config, name)
    return config.invocation_params.dir / value if value else None


def has_unicode(config: pytest.Config) -> bool:
    """Whether the terminal has Unicode, by its encoding."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    stream = getattr(getattr(reporter, "_tw", None), "_file", sys.stdout)
    try:
        "✗·✓…".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
