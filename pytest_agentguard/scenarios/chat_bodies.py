"""Chat answers that are not a model's answer: nothing, a page, other JSON, other events, errors."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agentguard import Lane, Limits, Reply, Scenario, Setup
from pytest_agentguard.faults import challenge_page, html_page, json_error, nothing, only_done
from pytest_agentguard.scenarios._replies import then_recover

_EMPTY = ("no-success-on-empty-stream",)
_FOREIGN = ("no-success-on-non-stream",)
_KINDS = ("overloaded", "auth", "context", "rate-limit")

_UPSTREAM = b"upstream connect error or disconnect/reset before headers. reset reason: connection termination"
_OTHER_JSON = b'{"status":"ok","service":"gateway","message":"All systems operational"}'
_OTHER_EVENTS = b'event: notice\ndata: {"status":"ok","message":"All systems operational"}\n\n'


def _nothing() -> Iterator[Scenario]:
    yield Scenario(
        id="nothing",
        summary="The response has status 200 and not one byte of a body.",
        invariants=_EMPTY,
        script=then_recover(nothing.FAULT(Reply())),
        requirements=("A18",),
        hint="Nothing is not an empty answer.",
    )
    yield Scenario(
        id="only-done",
        summary="The stream consists of the completion marker and nothing else.",
        invariants=_EMPTY,
        script=then_recover(only_done.FAULT(Reply())),
        modes=("stream",),
        requirements=("A18",),
        hint="A marker completes an answer, and there is none.",
    )
    yield Scenario(
        id="only-keep-alives",
        summary="The stream consists of keep-alives, then the body ends cleanly.",
        invariants=_EMPTY,
        script=then_recover(Reply().keep_alive(count=3).nothing().named("only keep-alives")),
        modes=("stream",),
        hint="A keep-alive says that the connection lives, not what the model says.",
    )


def _foreign() -> Iterator[Scenario]:
    bodies = {
        "html-page": ("an HTML page, as a proxy sends it", html_page.FAULT(Reply())),
        "challenge-page": ("the page of a bot challenge", challenge_page.FAULT(Reply())),
        "plain-text": (
            "plain text from a gateway",
            Reply().body(_UPSTREAM, content_type="text/plain").named("plain text", "content-type"),
        ),
        "other-json": ("JSON that is not the dialect's", Reply().body(_OTHER_JSON).named("other JSON")),
        "other-events": (
            "an event stream that is not the dialect's",
            Reply().body(_OTHER_EVENTS, content_type="text/event-stream").named("other events"),
        ),
    }
    for id, (words, reply) in bodies.items():
        yield Scenario(
            id=id,
            summary=f"The body with status 200 is {words}.",
            invariants=_FOREIGN,
            script=then_recover(reply),
            requirements=("A22",),
            hint="Status 200 says that somebody answered, not that the model did.",
        )


def _by_status(setup: Setup) -> list[Lane]:
    return [
        Lane(kind, [Reply().status(setup.dialect.statuses[kind], kind).named(f"status for {kind}").times(8)])
        for kind in _KINDS
    ]


def _by_event(setup: Setup) -> list[Lane]:
    reply = Reply().text("Let me see.")
    return [Lane(kind, [reply.error(kind).named(f"error event for {kind}").times(8)]) for kind in _KINDS]


def _errors() -> Iterator[Scenario]:
    yield Scenario(
        id="json-error",
        summary="The body with status 200 is the provider's error as JSON.",
        invariants=_FOREIGN,
        script=then_recover(json_error.FAULT(Reply())),
        requirements=("A22",),
        hint="The provider says that it failed, whatever the status says.",
    )
    yield Scenario(
        id="error-kinds",
        summary="Overload, a bad key, a context overflow and a rate limit, each as a status, side by side.",
        invariants=("no-success-on-error-event", "error-keeps-its-kind"),
        lanes=_by_status,
        limits=Limits(attempts=1),
        hint="What to do next depends on the kind: wait, stop, shorten, or slow down.",
    )
    yield Scenario(
        id="error-event-kinds",
        summary="The same four kinds of error, each as an event in mid-stream, side by side.",
        invariants=("no-success-on-error-event", "error-keeps-its-kind"),
        lanes=_by_event,
        limits=Limits(attempts=1),
        modes=("stream",),
        hint="What to do next depends on the kind: wait, stop, shorten, or slow down.",
    )


SCENARIOS = (*_nothing(), *_foreign(), *_errors())
