"""What an adapter offers is looked at where it is loaded: each wrong field is named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pytest_agentguard import Adapter, Limits, UsageError
from pytest_agentguard._core.contracts import DIALECTS, MODES
from pytest_agentguard._core.offer import look_at, unknown_distribution


def run(job: Any) -> str:
    return "ok"


def offered(**fields: Any) -> Adapter:
    return dataclasses.replace(Adapter(name="mine", run=run), **fields)


FLAWS: list[tuple[dict[str, Any], str]] = [
    ({"dialects": ("antropic",)}, "unknown dialect 'antropic'; did you mean 'anthropic'?"),
    ({"dialects": "anthropic"}, "dialects takes a tuple of names, as in ('anthropic',), not 'anthropic'"),
    ({"dialects": ()}, "dialects is empty, so nothing would be judged"),
    ({"dialects": (1,)}, "dialects takes names, not 1"),
    ({"modes": ("blok",)}, "unknown mode 'blok'; did you mean 'block'?"),
    ({"modes": "stream"}, "modes takes a tuple of names, as in ('stream',), not 'stream'"),
    ({"surfaces": ("chats",)}, "unknown surface 'chats'; did you mean 'chat'?"),
    ({"surfaces": ("fetch",)}, "surfaces has fetch, and there is no fetch="),
    ({"fetch": len}, "there is a fetch=, and surfaces lacks fetch"),
    ({"distributions": "httpx"}, "distributions takes a tuple of names, as in ('httpx',), not 'httpx'"),
    ({"backend": "curio"}, "unknown backend 'curio'; did you mean 'trio'?"),
    ({"overlap": 0}, "overlap takes a whole number from 1, not 0"),
    ({"overlap": "many"}, "overlap takes a whole number from 1, not 'many'"),
    ({"name": ""}, "name takes a text, not ''"),
    ({"run": "run"}, "run takes a function, not 'run'"),
    ({"run": dict}, "run takes a function, not <class 'dict'>"),
    ({"cancel": "stop"}, "cancel takes a function or None, not 'stop'"),
    ({"kept": 1}, "kept takes a function or None, not 1"),
    ({"fetch": 1}, "fetch takes a function or None, not 1"),
    ({"prepare": 1}, "prepare takes a function or None, not 1"),
    ({"start": 1}, "start takes a function or None, not 1"),
    ({"stop": 1}, "stop takes a function or None, not 1"),
    ({"declared": {"attempts": 1}}, "declared takes Limits(…), not {'attempts': 1}"),
    ({"declared": Limits(attempts=0)}, "declared.attempts takes a number above 0, not 0"),
]


@pytest.mark.parametrize(("fields", "message"), FLAWS, ids=str)
def test_a_field_that_cannot_be_meant_is_a_usage_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as problem:
        look_at(offered(**fields), DIALECTS)

    assert str(problem.value) == message


def test_every_field_of_an_adapter_is_looked_at() -> None:
    looked_at = {name for fields, _ in FLAWS for name in fields}

    assert {field.name for field in dataclasses.fields(Adapter)} - looked_at == set()


def test_an_adapter_that_says_everything_is_taken() -> None:
    def hook(*_: Any) -> Any:
        return None

    look_at(
        offered(
            dialects=list(DIALECTS), modes=MODES, surfaces=("chat", "fetch"), backend="trio", overlap=1,
            declared=Limits(attempts=1, deadline=0.5), distributions=("httpx",), cancel=hook, kept=hook,
            fetch=hook, prepare=hook, start=hook, stop=hook,
        ),
        DIALECTS,
    )  # fmt: skip


def test_a_dialect_that_somebody_adds_is_known() -> None:
    look_at(offered(dialects=("line-chat",)), (*DIALECTS, "line-chat"))


def test_a_distribution_that_is_not_there_is_named_with_the_nearest() -> None:
    assert str(unknown_distribution("htppx", ["httpx", "trio"])) == (
        "unknown distribution 'htppx'; did you mean 'httpx'?"
    )
