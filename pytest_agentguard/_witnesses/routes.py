"""What a request is: which lane, which dialect, which kind, and which credentials came with it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.errors import UsageError
from pytest_agentguard._witnesses.http_request import HttpRequest

CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "proxy-authorization")
_QUERY_CREDENTIALS = ("key", "api_key", "api-key", "access_token")
_LANE = re.compile(r"/lane/([A-Za-z0-9._~-]+)(?=/|$)")
_VERSIONS = re.compile(r"^(?:/v1)+(?=/|$)")
PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes. ``kind``: ``turn`` · ``models`` · ``other``; ``path`` has no credential in it."""

    lane: str
    path: str
    kind: str
    dialect: str = ""


def route(request: HttpRequest, dialects: Mapping[str, Dialect]) -> Route:
    """The route of a request; a doubled or missing ``/v1`` does not matter."""
    parts = _split(request.target)
    found = _LANE.match(parts.path)
    lane = found.group(1) if found else ""
    path = parts.path[found.end() :] if found else parts.path
    bare = _bare(path.rstrip("/"))
    shown = parts.path + (f"?{_shown_query(parts.query)}" if parts.query else "")
    if request.method == "POST":
        ends = _ends(tuple([(id, dialect.paths) for id, dialect in dialects.items()]))
        end = max([end for end in ends if bare.endswith(end)], key=len, default="")
        if end:
            return Route(lane, shown, "turn", ends[end])
    if request.method == "GET":
        id = _models_dialect(request, bare, path, dialects)
        if id:
            return Route(lane, shown, "models", id)
    return Route(lane, shown, "other")


def _split(target: str) -> SplitResult:
    """The parts of a target; what is no URL is all path."""
    try:
        return urlsplit(target)
    except ValueError:
        path, _, query = target.partition("?")
        return SplitResult("", "", path, query, "")


def lane_prefix(lane: str) -> str:
    """What the paths of a lane begin with. Raises ``UsageError`` for a name that no URL can carry."""
    if not lane:
        return ""
    if not _LANE.fullmatch(f"/lane/{lane}"):
        raise UsageError(f"lane={lane!r} has characters outside A-Z a-z 0-9 . _ ~ -")
    return f"/lane/{lane}"


def known_paths(dialects: Mapping[str, Dialect]) -> list[str]:
    """The paths that exist, for people."""
    turns = [f"POST {d.base_path or '/v1'}{_bare(path)}" for d in dialects.values() for path in d.paths]
    models = [f"GET {d.base_path or '/v1'}{_bare(d.models_path)}" for d in dialects.values()]
    return list(dict.fromkeys([*turns, *models]))


def credentials(request: HttpRequest) -> tuple[str, ...]:
    """The names of the headers and query parameters that carried a credential, never their values."""
    names = dict.fromkeys([name for name, _ in request.headers if name in CREDENTIALS])
    if "?" not in request.target:
        return tuple(names)
    query = parse_qsl(request.target.partition("?")[2].partition("#")[0], keep_blank_values=True)
    return (*names, *dict.fromkeys(f"?{name}=" for name, _ in query if name in _QUERY_CREDENTIALS))


def shown_headers(request: HttpRequest) -> dict[str, str]:
    """The headers, credentials replaced by ``present``."""
    shown: dict[str, str] = {}
    for name, value in request.headers:
        if name in CREDENTIALS:
            shown[name] = PRESENT
        else:
            shown[name] = f"{shown[name]}, {value}" if name in shown else value
    return shown


def shown_target(target: str) -> str:
    """The target of a request, credentials in its query replaced by ``present``."""
    path, mark, query = target.partition("?")
    return f"{path}?{_shown_query(query)}" if mark else path


@lru_cache(maxsize=16)
def _ends(paths: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, str]:
    """What the paths for turns end with, and the dialect of each."""
    return {end: id for id, ends in paths for end in map(_bare, ends)}


def _bare(path: str) -> str:
    return _VERSIONS.sub("", path)


def _shown_query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return "&".join(
        f"{quote(name)}={PRESENT if name in _QUERY_CREDENTIALS else quote(value)}" for name, value in pairs
    )


def _models_dialect(request: HttpRequest, bare: str, path: str, dialects: Mapping[str, Dialect]) -> str:
    """Several dialects share one path for models: the client's own headers tell them apart, then the path."""
    fits = {id: d for id, d in dialects.items() if bare == _bare(d.models_path)}
    names = [name for name, _ in request.headers]
    return (
        _first(id for id in fits if any(name.startswith(f"{id.partition('-')[0]}-") for name in names))
        or _first(id for id, d in fits.items() if path == d.base_path + d.models_path)
        or _first(fits)
    )


def _first(ids: Iterable[str]) -> str:
    return next(iter(ids), "")
