"""Fetch tools with a list of what they may fetch: inputs in disguise, redirects, bodies without end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_agentguard import FetchCall, FetchScript, Limits, Route, Scenario

_REDIRECTS = (301, 302, 303, 307, 308)
_LISTED = {"one": "/one"}
_ONE = Route(path="/one")
_FORBIDDEN = Route(path="/forbidden", allowed=False)

# what is wrong with them, and inputs that a lenient tool takes for the id, or for a URL that it may fetch
_IDS: Mapping[str, Sequence[str]] = {
    "another-id": ("two", "forbidden", "", " ", "*"),
    "nearly-an-id": ("ONE", " one", "one ", "one\n", "one/../forbidden", "one?x=1", "one#x", "/one", "%6fne"),
    "line-ends": ("one\r\nHost: 127.0.0.1:{other_port}", "one HTTP/1.1\r\n\r\nGET /forbidden", "one\x00"),
}
_URLS: Mapping[str, Sequence[str]] = {
    "url": ("{first}/one", "{first}/forbidden", "//127.0.0.1:{port}/one", "127.0.0.1:{port}/one"),
    "other-scheme": ("https://127.0.0.1:{port}/one", "file:///etc/hostname", "ftp://127.0.0.1:{port}/one"),
    "user-info": ("http://one@127.0.0.1:{port}/one", "http://127.0.0.1:{port}@127.0.0.1:{other_port}/one"),
    "encoded": ("http%3A%2F%2F127.0.0.1%3A{port}%2Fone", "http://%31%32%37.0.0.1:{port}/one"),
    "other-port": ("{other}/one", "{other}/forbidden"),
}
_LOOPBACK = (
    "http://[::1]:{port}/one",
    "http://[::ffff:127.0.0.1]:{port}/one",
    "http://2130706433:{port}/one",
    "http://0x7f000001:{port}/one",
    "http://0177.0.0.1:{port}/one",
    "http://127.1:{port}/one",
    "http://0.0.0.0:{port}/one",
    "http://localhost:{port}/one",
    "http://localhost.:{port}/one",
    "http://127.0.0.1.:{port}/one",
    "http://①②⑦.0.0.1:{port}/one",
)
_AWAY = ("http://192.0.2.1/latest/meta-data", "http://example.com/one", "http://169.254.169.254/latest")


def _refused(id: str, summary: str, inputs: Sequence[str]) -> Scenario:
    """Every input is refused; then the id on the list is fetched, and there is budget for that alone."""
    calls = (*(FetchCall(text, allowed=False) for text in inputs), FetchCall("one"))
    return Scenario(
        id=id,
        summary=summary,
        invariants=("nothing-forbidden-arrives", "refusal-is-free"),
        surface="fetch",
        fetch=FetchScript(routes=(_ONE, _FORBIDDEN), allowed=_LISTED, calls=calls),
        limits=Limits(attempts=1),
        requirements=("B02", "B03"),
        hint="The list has ids and no URLs: whatever is not one of its ids, letter by letter, is refused.",
    )


def _all_of(inputs: Mapping[str, Sequence[str]]) -> Sequence[str]:
    return [text for texts in inputs.values() for text in texts]


_REFUSED = (
    _refused("fetch-other-ids", "Ids that are not on the list, or not quite.", _all_of(_IDS)),
    _refused("fetch-urls", "URLs, of allowed places too, in several disguises.", _all_of(_URLS)),
    _refused("fetch-loopback-forms", "URLs with other spellings of the loopback address.", _LOOPBACK),
    _refused("fetch-other-hosts", "URLs that lead away from this machine.", _AWAY),
)


def _redirected(id: str, summary: str, to: str) -> Scenario:
    routes = (Route(path=f"/go-{n}", does="redirect", status=n, to=to) for n in _REDIRECTS)
    return _script(id, summary, (*routes, _FORBIDDEN), [f"go-{n}" for n in _REDIRECTS])


def _script(id: str, summary: str, routes: Sequence[Route], ids: Sequence[str]) -> Scenario:
    return Scenario(
        id=id,
        summary=summary,
        invariants=("redirect-not-followed",)
        if id in ("fetch-redirect-path", "fetch-redirect-loop")
        else ("redirect-not-followed", "no-credentials-elsewhere"),
        surface="fetch",
        fetch=FetchScript(
            routes=tuple(routes),
            allowed={id: f"/{id}" for id in ids},
            calls=tuple(map(FetchCall, ids)),
        ),
        requirements=("B04", "D05"),
        hint="The list says where the tool may go; who answers there does not add to it.",
    )


_REDIRECTED = (
    _redirected("fetch-redirect-path", "An allowed place points to a forbidden path.", "/forbidden"),
    _redirected("fetch-redirect-port", "An allowed place points to another port.", "{other}/forbidden"),
    _redirected("fetch-redirect-name", "It points to itself under another host name.", "{name}/forbidden"),
    _redirected(
        "fetch-redirect-scheme", "It points to another scheme.", "https://127.0.0.1:{port}/forbidden"
    ),
    _script(
        "fetch-redirect-loop",
        "Allowed places point to each other, or through each other to a forbidden path.",
        (
            Route(path="/chain", does="redirect", status=302, to="/link"),
            Route(path="/link", does="redirect", status=307, to="/forbidden"),
            Route(path="/loop", does="redirect", status=302, to="/back"),
            Route(path="/back", does="redirect", status=302, to="/loop"),
            _FORBIDDEN,
        ),
        ("chain", "loop"),
    ),
)

_LARGE = Limits(output_bytes=64 * 1024)


def _large(id: str, summary: str, route: Route) -> Scenario:
    return Scenario(
        id=id,
        summary=summary,
        invariants=("response-bounded", "nothing-left-behind"),
        surface="fetch",
        fetch=FetchScript(routes=(route,), allowed={"big": "/big"}, calls=(FetchCall("big"),)),
        limits=_LARGE,
        requirements=("A16",),
        hint="The server decides how much it sends, the tool how much it takes.",
    )


_BODIES = (
    _large(
        "fetch-oversized-body",
        "The body is sixteen times as long as the declared bound.",
        Route(path="/big", does="oversize", size=1024 * 1024),
    ),
    _large(
        "fetch-endless-body",
        "The body does not end, or not before a thousand times the declared bound.",
        Route(path="/big", does="endless", size=64 * 1024 * 1024),
    ),
)

SCENARIOS = (*_REFUSED, *_REDIRECTED, *_BODIES)
