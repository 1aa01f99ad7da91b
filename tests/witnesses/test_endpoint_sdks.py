"""The shipped dialects through the official SDKs, above all the bad endings of a stream (wire facts §4.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from endpoint_kit import serving

from pytest_agentguard import Reply, catalogue
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard.events import RequestReceived, StreamEnded, StreamReleased

TEXT = Reply().text("Hello ", "there")
CALL = Reply().text("Let me look. ").call("record", x="{nonce}")
IDLE = 0.25  # s of silence that the clients bear
TOOL = {
    "name": "record",
    "description": "",
    "schema": {"type": "object", "properties": {"x": {"type": "string"}}},
}

Ask = Callable[[Endpoint], list[Any]]


MADE: dict[str, Any] = {}


def sdk(dialect: str) -> Any:
    """One client of each SDK: making one costs more than all that it does here."""
    if dialect not in MADE:
        module = pytest.importorskip(dialect.partition("-")[0])
        kind = module.OpenAI if dialect == "openai-chat" else module.Anthropic
        MADE[dialect] = kind(base_url="http://127.0.0.1:9", api_key="dummy", timeout=IDLE, max_retries=0)
    return MADE[dialect]


@pytest.fixture(scope="module", autouse=True)
def closed_at_the_end() -> Iterator[None]:
    """No client stays open."""
    yield
    while MADE:
        MADE.popitem()[1].close()


def client(dialect: str, endpoint: Endpoint, **options: Any) -> Any:
    """The SDK's client, led to the endpoint."""
    return sdk(dialect).with_options(base_url=endpoint.base_url(dialect), **options)


def _openai(endpoint: Endpoint) -> list[Any]:
    function = {"name": TOOL["name"], "parameters": TOOL["schema"]}
    stream = client("openai-chat", endpoint).chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "x"}],
        tools=[{"type": "function", "function": function}],
        stream=True,
    )
    with stream:
        return list(stream)


def _anthropic(endpoint: Endpoint) -> list[Any]:
    stream = client("anthropic", endpoint).messages.create(
        model="m",
        max_tokens=100,
        messages=[{"role": "user", "content": "x"}],
        tools=[{"name": TOOL["name"], "input_schema": TOOL["schema"]}],
        stream=True,
    )
    with stream:
        return list(stream)


CLIENTS: dict[str, Ask] = {"openai-chat": _openai, "anthropic": _anthropic}
BOTH = pytest.mark.parametrize("dialect", list(CLIENTS))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An endpoint of the shipped dialects."""
    with serving(dialects=catalogue.dialects()) as (endpoint, _):
        yield endpoint


def raised(dialect: str, endpoint: Endpoint) -> str:
    """The class of what the SDK raises, its module included."""
    with pytest.raises(Exception) as caught:
        CLIENTS[dialect](endpoint)
    return f"{type(caught.value).__module__.partition('.')[0]}.{type(caught.value).__name__}"


@BOTH
def test_whole_stream_is_understood(dialect: str, endpoint: Endpoint) -> None:
    endpoint.play(CALL)
    events = CLIENTS[dialect](endpoint)
    assert "record" in repr(events)
    assert endpoint.problems() == endpoint.unplayed() == []
    assert [request.dialect for request in endpoint.requests] == [dialect]


@BOTH
@pytest.mark.parametrize("framing", ["chunked", "close"], ids=["E2", "E3"])
def test_clean_end_without_the_marker_ends_silently(dialect: str, framing: str, endpoint: Endpoint) -> None:
    endpoint.play(CALL.cut(framing=framing))
    assert CLIENTS[dialect](endpoint)


@BOTH
@pytest.mark.parametrize(
    "reply", [TEXT.nothing(), TEXT.html(), TEXT.json_error()], ids=["empty body", "html", "json"]
)
def test_body_without_events_ends_silently(dialect: str, reply: Reply, endpoint: Endpoint) -> None:
    endpoint.play(reply)
    assert CLIENTS[dialect](endpoint) == []


@pytest.mark.parametrize(
    ("dialect", "error"),
    [("openai-chat", "openai.APIConnectionError"), ("anthropic", "httpx2.RemoteProtocolError")],
)
def test_protocol_cut_raises(dialect: str, error: str, endpoint: Endpoint) -> None:
    endpoint.play(CALL.protocol_cut())
    assert raised(dialect, endpoint) == error


@pytest.mark.parametrize(
    ("dialect", "error"), [("openai-chat", "openai.APIConnectionError"), ("anthropic", "httpx2.ReadError")]
)
def test_reset_raises(dialect: str, error: str, endpoint: Endpoint) -> None:
    endpoint.play(CALL.reset())
    assert raised(dialect, endpoint) == error


@pytest.mark.parametrize(
    ("dialect", "error"), [("openai-chat", "openai.APITimeoutError"), ("anthropic", "httpx2.ReadTimeout")]
)
def test_stall_times_out_before_it_is_released(dialect: str, error: str) -> None:
    with serving(dialects=catalogue.dialects()) as (endpoint, ledger):
        played = endpoint.play(CALL.stall(limit=30))
        assert raised(dialect, endpoint) == error
        assert played.closed.wait(5)
        endpoint.settle()
        assert [released.by for released in ledger.of(StreamReleased)] == ["client-closed"]
        assert [end.end for end in ledger.of(StreamEnded)] == ["client-left"]


@BOTH
def test_drip_reaches_no_timeout(dialect: str) -> None:
    with serving(dialects=catalogue.dialects()) as (endpoint, ledger):
        endpoint.play(CALL.drip(every=0.02, limit=2 * IDLE))
        error = raised(dialect, endpoint)
        endpoint.settle()
        assert "Timeout" not in error
        assert [released.by for released in ledger.of(StreamReleased)] == ["limit"]


@pytest.mark.parametrize(
    ("dialect", "error"), [("openai-chat", "openai.APIError"), ("anthropic", "anthropic.APIStatusError")]
)
def test_error_event_raises(dialect: str, error: str, endpoint: Endpoint) -> None:
    endpoint.play(TEXT.error("rate-limit" if dialect == "openai-chat" else "bad-request"))
    assert raised(dialect, endpoint) == error


@BOTH
def test_broken_json_in_an_event_raises(dialect: str, endpoint: Endpoint) -> None:
    endpoint.play(Reply().body(b'event: message_start\ndata: {"broken\n\n', content_type="text/event-stream"))
    assert raised(dialect, endpoint) == "json.JSONDecodeError"


def test_answer_that_is_kept_open_is_over_for_openai_and_times_out_for_anthropic(endpoint: Endpoint) -> None:
    endpoint.play(TEXT.keep_open(limit=30).times(2))
    assert _openai(endpoint)
    assert raised("anthropic", endpoint) == "httpx2.ReadTimeout"


@BOTH
def test_whole_stream_is_understood_at_any_split(dialect: str, endpoint: Endpoint) -> None:
    endpoint.play(TEXT, TEXT.split(each=1), TEXT.split(by="newline").newlines("\r\n"), TEXT.split(by="event"))
    lengths = {len(CLIENTS[dialect](endpoint)) for _ in range(4)}
    assert len(lengths) == 1


@BOTH
def test_sdk_credentials_are_seen_by_name(dialect: str) -> None:
    with serving(dialects=catalogue.dialects()) as (endpoint, ledger):
        endpoint.play(TEXT)
        CLIENTS[dialect](endpoint)
        (received,) = ledger.of(RequestReceived)
    assert set(received.credentials) & {"authorization", "x-api-key"}
    assert "dummy" not in repr(received.headers)


@BOTH
def test_model_list_has_the_shape_of_its_dialect(dialect: str, endpoint: Endpoint) -> None:
    assert [model.id for model in client(dialect, endpoint).models.list()] == ["agentguard-model"]


@BOTH
def test_request_without_a_reply_is_not_tried_again(dialect: str, endpoint: Endpoint) -> None:
    module = pytest.importorskip(dialect.partition("-")[0])
    eager = client(dialect, endpoint, max_retries=2)
    say: Any = eager.chat.completions if dialect == "openai-chat" else eager.messages
    with pytest.raises(module.InternalServerError, match="agentguard: no scripted reply for request r1"):
        say.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])
    assert endpoint.requests.count == 1


def test_environment_alone_leads_the_sdks_here(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    for name, value in endpoint.env().items():
        monkeypatch.setenv(name, value)
    endpoint.play(TEXT.times(2))
    message = {"role": "user", "content": "x"}
    with openai.OpenAI(timeout=5) as openai_client:
        said = openai_client.chat.completions.create(model="m", messages=[message])
        assert said.choices[0].message.content == "Hello there"
    with anthropic.Anthropic(timeout=5) as anthropic_client:
        said = anthropic_client.messages.create(model="m", max_tokens=9, messages=[message])
        assert said.content[0].text == "Hello there"


@BOTH
def test_status_becomes_the_error_of_the_sdk(dialect: str, endpoint: Endpoint) -> None:
    names = []
    for status in (400, 401, 403, 404, 422, 429, 500):
        endpoint.play(Reply().status(status))
        names.append(raised(dialect, endpoint).partition(".")[2])
    assert names == [
        "BadRequestError",
        "AuthenticationError",
        "PermissionDeniedError",
        "NotFoundError",
        "UnprocessableEntityError",
        "RateLimitError",
        "InternalServerError",
    ]
