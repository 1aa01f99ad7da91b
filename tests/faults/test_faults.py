"""Every fault, applied to the same healthy reply: what leaves is what its entry says."""

from __future__ import annotations

import pytest

from pytest_agentguard import End, Fault, Plan, Reply, Seen, catalogue
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.planning import Setting, plan

HEALTHY = Reply().text("Let me record that.").call("record", x="{nonce}-evidence")
DIALECTS = ("openai-chat", "anthropic")

every_fault = pytest.mark.parametrize(
    ("fault", "dialect", "mode"),
    [
        pytest.param(fault, dialect, mode, id=f"{fault.id}-{dialect}-{mode}")
        for fault in catalogue.faults().values()
        for dialect in DIALECTS
        for mode in fault.modes
    ],
)


def planned(reply: Reply, dialect: str, mode: str) -> Plan:
    return plan(reply, Setting(dialect=catalogue.dialect(dialect), mode=mode, ids=CountedIds("0")))


@every_fault
def test_fault_fires_and_is_what_it_says(fault: Fault, dialect: str, mode: str) -> None:
    spoiled = planned(fault(HEALTHY), dialect, mode)
    healthy = planned(HEALTHY, dialect, mode)
    sent = spoiled.body[: spoiled.last]
    complete = spoiled.delivered(spoiled.last).complete
    permits = any(note.fields.get("permits") for _, note in spoiled.notes)
    errors = [note for _, note in spoiled.notes if note.kind.__name__ == "ErrorSent"]
    assert spoiled.delivered(spoiled.last).fired
    match fault.seen:
        case Seen.WHOLE:
            assert complete
            assert permits
            assert sent.replace(b"\r\n", b"\n") == healthy.body
        case Seen.INCOMPLETE:
            assert not complete
            assert spoiled.end is not End.STALLED
            assert healthy.body.startswith(sent)
        case Seen.SILENT:
            assert not complete
            assert spoiled.end is End.STALLED
        case Seen.WITHDRAWN:
            assert complete
            assert not permits
        case Seen.ERROR:
            assert errors
            assert not permits
        case Seen.EMPTY:
            assert sent in (b"", catalogue.dialect(dialect).done)
        case Seen.FOREIGN:
            assert spoiled.status == 200
            assert b"<html>" in sent


@every_fault
def test_fault_is_pure(fault: Fault, dialect: str, mode: str) -> None:
    before = HEALTHY
    assert fault.apply(HEALTHY) == fault.apply(HEALTHY) != HEALTHY
    assert before == HEALTHY


def test_every_fault_says_in_one_line_what_it_is() -> None:
    for fault in catalogue.faults().values():
        assert fault.summary.endswith("."), fault.id


def test_unknown_fault_is_a_usage_error_with_the_nearest_name() -> None:
    with pytest.raises(catalogue.UsageError, match="unknown fault 'clean-cuts'; did you mean 'clean-cut'"):
        catalogue.fault("clean-cuts")
