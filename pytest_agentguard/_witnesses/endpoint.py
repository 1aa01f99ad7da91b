"""Our fake model server: scripted replies in every dialect on one loopback port; what happens is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pytest_agentguard._core import limits
from pytest_agentguard._core.contracts import ModelEndpoint
from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.errors import UsageError, unknown_name
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.ledger import Recorder
from pytest_agentguard._core.plan import Plan
from pytest_agentguard._core.planning import Setting, plan
from pytest_agentguard._core.reply import Reply
from pytest_agentguard._witnesses.barrier import Barrier
from pytest_agentguard._witnesses.desk import Desk
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.exchanges import Told
from pytest_agentguard._witnesses.listener import Listener
from pytest_agentguard._witnesses.requests import Requests
from pytest_agentguard._witnesses.routes import lane_prefix
from pytest_agentguard._witnesses.script import Played

if TYPE_CHECKING:
    from pytest_agentguard._witnesses.counting_server import CountingServer


class Endpoint:
    """A model server of one test or one run, on a port of its own.

    It records into ``recorder`` and serves ``dialects``, chosen by path. ``ceiling`` is how many requests of
    one lane it serves. ``check_transcripts`` answers a transcript that a provider would reject with the
    provider's own error. ``release_after`` (s) replaces the limit of every hold. ``wire`` is a folder that
    keeps the bytes of both directions.
    """

    def __init__(
        self,
        recorder: Recorder,
        dialects: Mapping[str, Dialect],
        *,
        engine: Engine,
        seed: str = "0",
        strict: bool = False,
        ceiling: int = limits.REQUESTS,
        check_transcripts: bool = True,
        release_after: float | None = None,
        wire: Path | None = None,
    ) -> None:
        self._dialects = dialects
        self._engine = engine
        self._strict = strict
        self._desk = Desk(
            recorder,
            dialects,
            seed=seed,
            strict=strict,
            ceiling=ceiling,
            check_transcripts=check_transcripts,
            hold_limit=release_after,
            wire=wire,
        )
        self.barrier = Barrier(recorder)
        self._listener = Listener(engine, self.barrier.before(self._desk))
        self.barrier.add(self._listener.drain)
        self._is_closed = False

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Endpoint {self.root_url} requests={self.requests.count}>"

    # -- where it is ----------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return self._listener.port

    @property
    def root_url(self) -> str:
        """Its address without any path."""
        return f"http://127.0.0.1:{self.port}"

    def base_url(self, dialect: str, lane: str = "") -> str:
        """What the official SDK of ``dialect`` takes as base URL."""
        self._desk.lanes.add(lane)
        return self.root_url + lane_prefix(lane) + self._dialect(dialect).base_path

    def model_endpoint(self, dialect: str, lane: str = "") -> ModelEndpoint:
        """The same for a job: dialect, both URLs, a dummy key and a model."""
        root_url = self.root_url + lane_prefix(lane)
        return ModelEndpoint(dialect=dialect, base_url=self.base_url(dialect, lane), root_url=root_url)

    def barrier_url(self, lane: str = "") -> str:
        """Where a stop of ``lane`` is put on record, once everything that was sent before has been read."""
        return self.barrier.url(self.root_url, lane)

    def barrier_with(self, other: Endpoint | CountingServer) -> None:
        """Read both servers before a stop is put on record by either."""
        self.barrier.join(other.barrier)

    def env(self, dialect: str | None = None, lane: str = "") -> dict[str, str]:
        """Variables that lead the SDK of ``dialect`` (None: of every dialect) here, past any proxy."""
        variables = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        for id in self._dialects if dialect is None else (dialect,):
            place = self.model_endpoint(id, lane)
            values = {"base_url": place.base_url, "root_url": place.root_url, "api_key": place.api_key}
            variables |= {name: values[what] for name, what in self._dialect(id).environment.items()}
        return variables

    # -- what it answers ------------------------------------------------------------------------------

    def play(self, *replies: Reply, lane: str = "") -> Played:
        """Answer the next requests of ``lane`` with ``replies``, in order."""
        if self._is_closed:
            raise UsageError("play() of an endpoint that has been closed: it ends with its test")
        lane_prefix(lane)
        self._desk.lanes.add(lane)
        played = Played(self._release_played)
        self._desk.script.add(replies, lane, played)
        return played

    def measure(self, reply: Reply, dialect: str, mode: str) -> Plan:
        """The plan that ``reply`` would have; sizes do not depend on the ids in it."""
        return plan(reply, Setting(self._dialect(dialect), mode, CountedIds("measure"), strict=self._strict))

    def release(self, by: str = "run-ended", lane: str | None = None) -> None:
        """Let go of everything that is held now, in one lane or in all; it is done on return."""
        if self._listener.holds:
            self._listener.release(by, lambda exchange: lane is None or exchange.lane == lane)

    def _release_played(self, played: Played) -> None:
        self._listener.release("test", lambda e: isinstance(e, Told) and e.played is played)

    def settle(self) -> None:
        """Return once everything that has reached us by now is recorded."""
        self._engine.settle()

    # -- what became of it ----------------------------------------------------------------------------

    @property
    def requests(self) -> Requests:
        """The requests for a model's turn, in order of arrival."""
        return self._desk.requests

    @property
    def sent_bytes(self) -> int:
        """Body bytes that have left so far, floods and drips included."""
        return self._desk.sent_bytes

    def unplayed(self) -> list[str]:
        """One line per scripted reply that no request met."""
        return self._desk.script.unplayed()

    def problems(self) -> list[str]:
        """One line per request that could not be answered as scripted."""
        return list(self._desk.problems)

    def close(self) -> None:
        """Stop listening and end what is under way; in a forked child, or again, it does nothing."""
        self._is_closed = True
        self._listener.close()

    def _dialect(self, id: str) -> Dialect:
        if id not in self._dialects:
            raise unknown_name("dialect", id, self._dialects)
        return self._dialects[id]
