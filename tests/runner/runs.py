"""Runs of the agents that do their worst."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_agentguard import RECORD, Ledger
from pytest_agentguard._runner.host import AgentHost, RunHandle
from pytest_agentguard._runner.orders import JobOrder, RunOrder, RunReceipt
from pytest_agentguard._witnesses.journal_file import read

HERE = Path(__file__).parent
_numbers = itertools.count(1)


class Run:
    """A run that was started: its handle, the lanes whose end was told, and its ledger."""

    def __init__(self, host: AgentHost, order: RunOrder) -> None:
        self.journal = order.journal
        self.told: list[str] = []
        self.handle: RunHandle = host.start(order, self.told.append)

    def finish(self) -> Ledger:
        """Wait for the receipt, then read the journal."""
        self.receipt: RunReceipt = self.handle.wait()
        return self.ledger

    @property
    def ledger(self) -> Ledger:
        """What is in the journal by now."""
        return read(self.journal)


def order(folder: Path, *prompts: str, **options: Any) -> RunOrder:
    """One run with a job per prompt; hard deadline and window are short."""
    number = next(_numbers)
    jobs = tuple(
        JobOrder(
            lane=f"lane-{n}" if len(prompts) > 1 else "",
            prompt=prompt,
            dialect="openai-chat",
            base_url="http://127.0.0.1:9/v1",
            root_url="http://127.0.0.1:9",
            tools=(RECORD,),
            final="final-1",
        )
        for n, prompt in enumerate(prompts)
    )
    chosen = {"seconds": 10.0, "watch": 0.05, **options}
    return RunOrder(id=f"run-{number}", jobs=jobs, journal=folder / f"{number}.jsonl", **chosen)


Start = Callable[..., Run]
