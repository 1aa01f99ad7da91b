"""Every mutant is a whole agent that passes the control, and says which guard it lacks."""

from __future__ import annotations

import importlib
import inspect

import anyio
import pytest
from fetch_kit import site, status
from reference_kit import ANSWER, CALL, DIALECTS, FINAL, MODES, run_async, stage

from pytest_agentguard.catalogue import invariants
from pytest_agentguard.reference.mutants import fetch_mutants, mutants

NAMES = tuple(mutants())
FETCHING = tuple(fetch_mutants())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", NAMES)
def test_mutant_passes_the_control(name, dialect, mode):
    fresh = importlib.reload(importlib.import_module(f"pytest_agentguard.reference.mutants.{name}"))
    with stage(dialect, mode, [CALL, ANSWER]) as on:
        answer = run_async(fresh.MUTANT.run, on.job())

        assert answer == FINAL
        assert [arguments["x"].endswith("-evidence") for arguments in on.ran] == [True]
        assert on.asked == 2


@pytest.mark.parametrize("name", NAMES)
def test_mutant_says_which_guard_is_missing(name):
    module = importlib.import_module(f"pytest_agentguard.reference.mutants.{name}")

    assert (module.__doc__ or "").startswith("Without ")
    assert inspect.iscoroutinefunction(module.run)
    assert module.MUTANT.run is module.run
    assert len(module.MUTANT.breaks) == len(set(module.MUTANT.breaks)) > 0


@pytest.mark.parametrize("name", FETCHING)
def test_fetch_mutant_passes_the_control(name):
    async def main():
        outcome = await fetch_mutants()[name].fetch(place.job())("a")
        assert isinstance(outcome, str)
        return outcome

    with site(status(200, b"hello")) as place:
        assert anyio.run(main) == "hello"
        assert place.paths == ["/a"]


@pytest.mark.parametrize("name", FETCHING)
def test_fetch_mutant_says_which_guard_is_missing(name):
    module = importlib.import_module(f"pytest_agentguard.reference.mutants.{name}")

    assert (module.__doc__ or "").startswith("Without ")
    assert module.MUTANT.fetch is module.fetch
    assert module.MUTANT.run is None
    assert len(module.MUTANT.breaks) == len(set(module.MUTANT.breaks)) > 0


def test_every_rule_has_a_mutant():
    every = [*mutants().values(), *fetch_mutants().values()]
    broken = {rule for mutant in every for rule in mutant.breaks}

    assert set(invariants()) - broken == set()
