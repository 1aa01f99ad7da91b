"""What the body of a test leaves behind, for tests that ask for it by the rule ``nothing-left-behind``."""

from __future__ import annotations

from collections.abc import Collection

from pytest_agentguard._core.events import LeftBehind, WatchEnded, Witness
from pytest_agentguard._core.ledger import Ledger
from pytest_agentguard._witnesses import clock
from pytest_agentguard._witnesses.leaks import Snapshot
from pytest_agentguard._witnesses.origins import Origins

_HELD = ("socket", "listener", "file")  # by local variables, for as long as the traceback of a failure lives


class Leftovers:
    """What was there before the body."""

    def __init__(self, origins: Origins) -> None:
        self._snapshot = Snapshot(origins)

    def record(self, ledger: Ledger, ports: Collection[int], *, failed: bool) -> None:
        """Look until nothing is left or the grace period is over, and put what is left on record.

        ``ports`` are those at which the witnesses listen; ``failed`` says that the test has failed by itself.
        """
        begun = clock.now()
        for left in self._snapshot.left_in_time(ports, without=_HELD if failed else ()):
            ledger.record(LeftBehind, witness=Witness.RUNNER, **left._asdict())
        ledger.record(WatchEnded, witness=Witness.RUNNER, seconds=round(clock.now() - begun, 3))
