"""Every mutant is a whole agent that passes the control, and says which guard it lacks."""

from __future__ import annotations

import importlib
import inspect

import pytest
from reference_kit import ANSWER, CALL, DIALECTS, FINAL, MODES, run_async, stage

from pytest_agentguard.catalogue import invariants
from pytest_agentguard.reference.mutants import mutants

NAMES = tuple(mutants())


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


def test_every_stream_rule_has_a_mutant():
    broken = {rule for mutant in mutants().values() for rule in mutant.breaks}
    rules = {id for id, rule in invariants().items() if rule.family == "stream"}

    assert rules - broken <= {"partial-text-kept"}
