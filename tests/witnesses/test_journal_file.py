"""The journal keeps every fact, in the order of the writes, whoever writes and whoever dies."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

from pytest_agentguard import Ledger
from pytest_agentguard._witnesses.journal_file import AcrossProcesses, JournalFile, entries, read
from pytest_agentguard.events import Claim, RunEnded, ToolStarted, WatchEnded, Witness

SPY = Witness.TOOL_SPY


def claim(journal: JournalFile | AcrossProcesses | Ledger, what: str) -> None:
    journal.record(Claim, witness=Witness.AGENT, what=what)


def claims(ledger: Ledger) -> list[str]:
    return [event.what for event in ledger.of(Claim)]


def in_child(act) -> None:
    """Run ``act`` in a forked process and wait for its end."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def test_facts_come_back_as_they_were_recorded(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "j") as journal:
        journal.record(ToolStarted, witness=SPY, lane="a", tool="pay", arguments={"x": [1, None, "ü"]})
        journal.record(RunEnded, witness=Witness.RUNNER, how="raised", error_chain=("A", "B"))

    started, ended = read(tmp_path / "j")

    assert started == ToolStarted(witness=SPY, lane="a", tool="pay", arguments={"x": [1, None, "ü"]})
    assert ended.error_chain == ("A", "B")
    assert 0 < started.t <= ended.t
    assert (started.seq, ended.seq) == (1, 2)


def test_a_journal_that_does_not_exist_has_no_facts(tmp_path: Path) -> None:
    assert list(read(tmp_path / "missing")) == []


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with JournalFile(path) as journal:
        claim(journal, "first")
        with path.open("ab") as torn:
            torn.write(b'[1.0,"Claim",{"witness":"ag')
        claim(journal, "second")

    assert claims(read(path)) == ["first", "second"]


def test_lines_of_somebody_else_are_no_facts(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = [b"garbage", b"5", b"[1,2,3]", b'[1.0,"Claim",{}]', b'[1.0,"Claim",{"witness":"agent","no":1}]']
    path.write_bytes(b"\n".join(lines))
    with JournalFile(path) as journal:
        claim(journal, "mine")

    assert claims(read(path)) == ["mine"]


def test_threads_never_mix_their_lines(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "j") as journal:
        threads = [
            threading.Thread(target=lambda n=n: [claim(journal, f"{n}-{m}" * 50) for m in range(50)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(claims(read(tmp_path / "j"))) == sorted(
        f"{n}-{m}" * 50 for n in range(4) for m in range(50)
    )


def test_a_forked_process_writes_the_same_journal(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "j") as journal:
        claim(journal, "before")
        in_child(lambda: claim(journal, "child"))
        claim(journal, "after")

    assert claims(read(tmp_path / "j")) == ["before", "child", "after"]


def test_a_closed_descriptor_is_opened_again(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "j") as journal:
        in_child(lambda: (os.closerange(3, 256), claim(journal, "still here")))

    assert claims(read(tmp_path / "j")) == ["still here"]


def test_a_fact_is_never_written_to_a_file_that_took_the_descriptor(tmp_path: Path) -> None:
    other = tmp_path / "other"

    def act() -> None:
        os.closerange(3, 256)
        with other.open("wb"):
            claim(journal, "still here")

    with JournalFile(tmp_path / "j") as journal:
        in_child(act)

    assert other.read_bytes() == b""
    assert claims(read(tmp_path / "j")) == ["still here"]


def test_a_pickled_journal_writes_the_same_file(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "j") as journal, pickle.loads(pickle.dumps(journal)) as copy:
        claim(copy, "copy")

    assert claims(read(tmp_path / "j")) == ["copy"]


def test_facts_of_children_are_merged_into_the_ledger_by_time(tmp_path: Path) -> None:
    import time

    ledger = Ledger(clock=time.monotonic)
    across = AcrossProcesses(ledger, tmp_path / "j")
    ledger.also_read(across.entries)

    claim(across, "first")
    in_child(lambda: claim(across, "second"))
    claim(across, "third")

    assert claims(ledger) == ["first", "second", "third"]
    assert [fields["what"] for _, _, fields in entries(tmp_path / "j")] == ["second"]


def test_a_descriptor_that_reads_the_same_file_now_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with JournalFile(path) as journal:
        reader = os.open(path, os.O_RDONLY)
        os.dup2(reader, journal._fd)
        journal.record(WatchEnded, witness=Witness.RUNNER, seconds=1.0)
        os.close(reader)

    assert [event.seconds for event in read(path)] == [1.0]
