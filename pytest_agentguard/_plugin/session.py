"""What a session and a test own: one engine for all endpoints, one ``AgentGuard`` for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agentguard._core.contracts import Limits
from pytest_agentguard._plugin.fixtures import AgentGuard
from pytest_agentguard._plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_agentguard._witnesses.engine import Engine
    from pytest_agentguard._witnesses.origins import Origins

_ENGINE = pytest.StashKey["tuple[int, Engine]"]()
_ORIGINS = pytest.StashKey["Origins"]()
_SCRATCH = pytest.StashKey[Path]()
_GUARD = pytest.StashKey[AgentGuard]()


def opening(item: pytest.Item, limits: Limits) -> AgentGuard:
    """A new ``AgentGuard`` for a test, with the limits that its marker declares."""
    settings = Settings.of(item.config)
    guard = item.stash[_GUARD] = AgentGuard(
        item.nodeid,
        engine=partial(engine_of, item.config),
        scratch=partial(scratch_of, item.config),
        origins=partial(origins_of, item.config),
        limits=limits,
        seed=f"{settings.seed or 0}/{item.nodeid}",
        strict=settings.strict,
    )
    return guard


def guard_of(item: pytest.Item) -> AgentGuard | None:
    """The ``AgentGuard`` of a test, or None where nothing of ours was used."""
    return item.stash.get(_GUARD, None)


def engine_of(config: pytest.Config) -> Engine:
    """The engine of this session and process, made when the first endpoint needs it."""
    from pytest_agentguard._witnesses.engine import Engine

    owner, engine = config.stash.get(_ENGINE, (0, None))
    if engine is None or engine.failure or owner != os.getpid():  # a forked test process inherits no thread
        engine = Engine()
        config.stash[_ENGINE] = (os.getpid(), engine)
        config.add_cleanup(engine.stop)
    return engine


def origins_of(config: pytest.Config) -> Origins:
    """What remembers who made what in this process; it cannot be taken out again, so there is one."""
    from pytest_agentguard._witnesses.origins import Origins

    if _ORIGINS not in config.stash:
        config.stash[_ORIGINS] = Origins()
    return config.stash[_ORIGINS]


def scratch_of(config: pytest.Config) -> Path:
    """A directory for journals of this session, removed at its end."""
    if _SCRATCH not in config.stash:
        scratch = config.stash[_SCRATCH] = Path(tempfile.mkdtemp(prefix="agentguard-"))
        config.add_cleanup(partial(shutil.rmtree, scratch, ignore_errors=True))
    return config.stash[_SCRATCH]
