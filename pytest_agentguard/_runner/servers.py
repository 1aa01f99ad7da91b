"""The servers of one run: an endpoint for a chat, a counting server for a fetch tool or as another origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_agentguard._core.dialect import Dialect
from pytest_agentguard._core.ids import CountedIds
from pytest_agentguard._core.scenario import Lane, Scenario
from pytest_agentguard._runner.orders import FetchOrder
from pytest_agentguard._witnesses.counting_server import CountingServer
from pytest_agentguard._witnesses.endpoint import Endpoint
from pytest_agentguard._witnesses.engine import Engine
from pytest_agentguard._witnesses.journal_file import JournalFile


class Servers:
    """What a scenario needs of servers, open from the beginning to the end of one run.

    ``hold_limit`` is how long a response is held at most, in seconds; None leaves it to the script.
    """

    def __init__(
        self,
        scenario: Scenario,
        journal: JournalFile,
        dialects: Mapping[str, Dialect],
        *,
        engine: Engine,
        seed: str,
        strict: bool,
        hold_limit: float | None,
        wire: Path | None,
    ) -> None:
        self._scenario = scenario
        self._seed = seed
        self.endpoint: Endpoint | None = None
        self.counting: CountingServer | None = None
        if scenario.fetch is None:
            self.endpoint = Endpoint(
                journal,
                dialects,
                engine=engine,
                seed=seed,
                strict=strict,
                release_after=hold_limit,
                wire=wire,
            )
        if scenario.fetch is not None or scenario.elsewhere:
            self.counting = CountingServer(journal, engine=engine, hold_limit=hold_limit)
        if self.endpoint is not None and self.counting is not None:
            self.endpoint.barrier_with(self.counting)
            self.counting.canary("key", self.endpoint.model_endpoint(next(iter(dialects))).api_key)
            self.counting.canary("prompt", scenario.prompt)

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self.endpoint, self.counting):
            if server is not None:
                server.close()

    @property
    def elsewhere(self) -> str:
        """The root URL of the other origin; empty where there is none."""
        return self.counting.other_origin.root_url if self.counting is not None else ""

    def barrier(self, lane: str) -> str:
        """Where a stop of the lane is put on record."""
        if self._scenario.cancel is None and self._scenario.fetch is None:
            return ""
        server = self.endpoint or self.counting
        return server.barrier_url(lane) if server is not None else ""

    def play(self, lanes: Sequence[Lane]) -> None:
        """Put the script of every lane in place, and the routes."""
        for lane in lanes:
            if self.endpoint is not None:
                self.endpoint.play(*lane.replies, lane=lane.label)
        if self.counting is not None and self._scenario.fetch is not None:
            for route in self._scenario.fetch.routes:
                self.counting.add(route)

    def fetch_order(self) -> FetchOrder | None:
        """The script of a fetch tool with every address filled in."""
        script, server = self._scenario.fetch, self.counting
        if script is None or server is None:
            return None
        token = f"token-{CountedIds(f'{self._seed}/token').nonce()}"
        server.canary("token", token)
        return FetchOrder(
            allowed={id: server.resolve(path) for id, path in script.allowed.items()},
            calls=tuple(server.resolve_call(call) for call in script.calls),
            token=token,
            method=script.method,
            body=script.body,
        )

    def release(self, by: str, lane: str | None = None) -> None:
        """Let go of what is held."""
        for server in (self.endpoint, self.counting):
            if server is not None:
                server.release(by, lane=lane)

    def unplayed(self) -> list[str]:
        """A line for each scripted reply that nobody requested."""
        return self.endpoint.unplayed() if self.endpoint is not None else []

    @property
    def received(self) -> int:
        """How many requests all of them have put on record so far."""
        chat = len(self.endpoint.requests.all) if self.endpoint is not None else 0
        return chat + (len(self.counting.requests) if self.counting is not None else 0)
