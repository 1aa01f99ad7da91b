"""How a run ended, as the fields of ``RunEnded``: by a value, an exception, or the end of its process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from pytest_agentguard._core.contracts import RunEnd
from pytest_agentguard._core.events import RunEnded, WatchEnded, Witness
from pytest_agentguard._core.journal import decode
from pytest_agentguard._runner.orders import RunOrder
from pytest_agentguard._witnesses.journal_file import JournalFile

_MESSAGE = 4000  # characters of an error message
_ANSWER = 1024 * 1024  # characters of an answer
_CHAIN = 16  # causes of an exception
_CANCELLATIONS = (
    ("asyncio", "CancelledError"),
    ("concurrent.futures", "CancelledError"),
    ("trio", "Cancelled"),
)
_MEMBERS = vars(BaseExceptionGroup)["exceptions"].__get__  # which a subclass may hide
_HOW = {"completed": "returned", "limited": "limited", "failed": "failed", "cancelled": "cancelled"}


def of_value(value: Any) -> dict[str, Any]:
    """The run returned: a text is its answer, a ``RunEnd`` says more, all else is noted by its ``repr``."""
    if isinstance(value, RunEnd):
        if value.how not in _HOW:
            known = ", ".join(_HOW)
            return {"how": "failed", "error": f"RunEnd how={value.how!r} is none of {known}"}
        answer = None if value.answer is None else _cut(str(value.answer), _ANSWER)
        error = None if value.error is None else _cut(str(value.error), _MESSAGE)
        return {"how": _HOW[value.how], "answer": answer, "error": error}
    if isinstance(value, str):
        return {"how": "returned", "answer": _cut(str.__str__(value), _ANSWER)}
    note = f"run returned {type(value).__name__}, not str"
    answer = None if value is None else _cut(_guarded(repr, value), _ANSWER)
    return {"how": "returned", "answer": answer, "error": note}


def of_exception(error: BaseException, *, stopped: bool = False) -> dict[str, Any]:
    """The run raised; a cancellation that came out of it is ``cancelled``.

    So is ``KeyboardInterrupt`` where the run was ``stopped`` by SIGINT.
    """
    interrupted = stopped and isinstance(error, KeyboardInterrupt)
    return {
        "how": "cancelled" if interrupted or is_cancellation(error) else "raised",
        "error": _cut(_guarded(str, error), _MESSAGE),
        "error_type": _name(error),
        "error_chain": tuple(_name(one) for one in chain(error)),
    }


def of_status(status: int) -> dict[str, Any]:
    """The process went away on its own; ``status`` is what ``waitpid`` gave."""
    code = exit_code(status)
    if code < 0:
        return {"how": "signalled", "code": -code, "error": f"process ended by {signal_name(-code)}"}
    return {"how": "exited", "code": code, "error": f"process exited with status {code} before the run ended"}


def exit_code(status: int) -> int:
    """The exit status, or the signal as a negative number."""
    return os.waitstatus_to_exitcode(status)


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; the number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, its causes, and the first leaf of a group; outermost first, bounded, no circles."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < _CHAIN:
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            current = _MEMBERS(current)[0]
        else:
            current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def is_cancellation(error: BaseException) -> bool:
    """Whether it is how asyncio, trio or a future says that it was cancelled, or a group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        members = _MEMBERS(error)
        return bool(members) and all(is_cancellation(one) for one in members)
    return any(
        module in sys.modules and isinstance(error, getattr(sys.modules[module], name))
        for module, name in _CANCELLATIONS
    )


def end_missing_lanes(order: RunOrder, journal: JournalFile, fields: dict[str, Any]) -> list[str]:
    """Record an end for every lane that has none in the journal; gives their names."""
    ended = set(_ended_lanes(order))
    missing = [job.lane for job in order.jobs if job.lane not in ended]
    for lane in missing:
        journal.record(RunEnded, witness=Witness.RUNNER, lane=lane, **fields)
    return missing


def end_lost_run(order: RunOrder, fields: dict[str, Any]) -> None:
    """Record that a run is over of which nobody is left to say so."""
    with JournalFile(order.journal) as journal:
        end_missing_lanes(order, journal, fields)
        journal.record(WatchEnded, witness=Witness.RUNNER, lane=order.own_lane, seconds=0.0)


def _ended_lanes(order: RunOrder) -> Iterator[str]:
    try:
        with order.journal.open("rb") as lines:
            for _, kind, fields in decode(line for line in lines if b'"RunEnded"' in line):
                if kind is RunEnded:
                    yield fields.get("lane", "")
    except FileNotFoundError:
        return


def _name(error: BaseException) -> str:
    """The class with its module, which built-in ones lack; nothing of a metaclass is called."""
    return type.__repr__(type(error)).removeprefix("<class '").removesuffix("'>")


def _guarded(shown: Any, value: Any) -> str:
    try:
        return str(shown(value))
    except (Exception, SystemExit) as error:  # somebody else's code
        return f"<{type(value).__qualname__}, whose text raised {type(error).__qualname__}>"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
