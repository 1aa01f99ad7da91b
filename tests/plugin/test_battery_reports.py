"""One battery from end to end: terminal, JSON, JUnit XML, artifacts, and the same under pytest-xdist."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from plugin.battery_kit import Session, run_battery

import pytest_agentguard

SCHEMA = Path(pytest_agentguard.__file__).parent.parent / "docs/reference/report.schema.json"
CHOSEN = "control or text-only or cut-inside-value"
STORY = """
____ agents.py:careless · no-tool-on-incomplete-stream · openai-chat, stream · must ____
offered    record(x="NONCE-evidence"), cut inside the value of x:  {"x": "NONCE-evi
delivered  N of N bytes, then a clean end, no finish reason  (as planned)
done       record(x="NONCE-evi") ran … the end; 2 requests arrived
claimed    success, "The answer is final-NONCE"
finding    tool=record started, arguments={"x": "NONCE-evi"}, stream=s1 complete=False end=clean
           arguments_whole=False
why        These are not the arguments of the model, and closing the quotes does not make them so.
  #N  endpoint  CallOffered  tool=record arguments='{"x": "NONCE-evidence"}' …
  #N  endpoint  StreamEnded  complete=False end=clean sent=N
  #N  tool-spy  ToolStarted  tool=record arguments={"x": "NONCE-evi"}
rerun      pytest --agentguard --agentguard-agent agents.py:careless --agentguard-seed 7 \\
           -k "cut-inside-value[openai-chat-stream]"
""".strip()


def reported(session: Session) -> dict[str, Any]:
    """The JSON report, which has to keep to its schema."""
    document = json.loads((session.folder / "report.json").read_text())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    return document


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A battery in one process."""
    folder = tmp_path_factory.mktemp("alone")
    options = ("--agentguard-seed", "7", "--agentguard-json", "report.json", "--junitxml", "junit.xml")
    kept = ("--agentguard-artifacts", "kept", "-rfs", "-k", CHOSEN)
    return run_battery(folder, *options, *kept, agents=("careless",))


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The same over two workers."""
    folder = tmp_path_factory.mktemp("spread")
    options = ("--agentguard-seed", "7", "--agentguard-json", "report.json", "--junitxml", "junit.xml")
    kept = ("--agentguard-artifacts", "kept", "-rs", "-k", CHOSEN, "-n", "2")
    return run_battery(folder, *options, *kept, agents=("careless",))


def test_header_says_what_is_judged_and_how(alone: Session) -> None:
    assert "agentguard: agents.py:careless, seed 7, endpoint on 127.0.0.1\n" in alone.text
    assert "agentguard: 3 scenarios × 2 dialects × 2 modes, 32 at a time\n" in alone.text


def test_violated_case_fails_with_its_story(alone: Session) -> None:
    assert alone.ret == pytest.ExitCode.TESTS_FAILED
    assert alone.outcomes["failed"] == 1
    plain = re.sub(r"\bk[a-z0-9]{6}\b", "NONCE", alone.text)
    plain = re.sub(r"(?<=#)\d+|\b\d+(?= bytes| of )|(?<=sent=)\d+", "N", plain)
    plain = re.sub(r"(CallOffered .*evidence\"}').*", r"\1 …", plain)  # as much as fits
    plain = re.sub(r"ran (before|after) the end", "ran … the end", plain)  # the two race each other
    begin = plain.index("____ agents.py:careless ·")
    assert sorted(plain[begin : begin + len(STORY)].splitlines()) == sorted(STORY.splitlines())
    failed = "agentguard::agents.py:careless::cut-inside-value[openai-chat-stream]"
    assert f"FAILED {failed} - no-tool-on" in alone.text


def test_what_a_plain_function_does_not_speak_is_skipped_and_named(alone: Session) -> None:
    assert alone.outcomes["skipped"] == 9
    assert "SKIPPED [6] agentguard: not covered: anthropic (the agent speaks openai-chat)\n" in alone.text
    assert "SKIPPED [3] agentguard: not covered: block replies (the agent asks for stream)\n" in alone.text
    summary = alone.text[alone.text.index("not covered: anthropic (") :]
    assert "the agent speaks openai-chat); block replies (the agent asks for stream)" in summary


def test_matrix_and_totals_close_the_session(alone: Session) -> None:
    assert re.search(r"^no-tool-on-incomplete-stream +✗ +-$", alone.text, re.MULTILINE)
    assert re.search(r"^control +✓ +-$", alone.text, re.MULTILINE)
    assert "held 6 · violated 1 (must 1) · known 0 · not exercised 0 · invalid 0\n" in alone.text


def test_json_report_keeps_to_its_schema_and_has_every_check(alone: Session) -> None:
    document = reported(alone)
    assert document["totals"] == {"held": 6, "violated": 1, "not exercised": 0, "invalid": 0, "known": 0}
    assert len(document["checks"]) == 7
    [agent] = document["agents"]
    assert agent["name"] == "agents.py:careless"
    assert len(agent["not_covered"]) == 2
    [bad] = [check for check in document["checks"] if check["outcome"] == "violated"]
    assert {event["event"] for event in bad["evidence"]} == {"CallOffered", "StreamEnded", "ToolStarted"}


def test_junit_file_has_the_outcome_of_every_rule_as_a_property(alone: Session) -> None:
    cases = xml.etree.ElementTree.parse(alone.folder / "junit.xml").getroot().iter("testcase")
    properties = {
        (case.get("name"), entry.get("name")): entry.get("value")
        for case in cases
        for entry in case.iter("property")
    }
    assert properties[("control[openai-chat-stream]", "agentguard:control")] == "held"
    cut = "cut-inside-value[openai-chat-stream]"
    assert properties[(cut, "agentguard:no-tool-on-incomplete-stream")] == "violated"
    assert len(properties) == 7


def test_artifacts_of_the_violated_case_are_kept_and_no_others(alone: Session) -> None:
    kept = alone.folder / "kept"
    home = kept / "agents.py_careless" / "cut-inside-value[openai-chat-stream]"
    found = {path.relative_to(home).as_posix() for path in kept.rglob("*") if path.is_file()}
    wire = {"wire/r1.request", "wire/s1.response", "wire/r2.request", "wire/s2.response"}
    assert found == {"journal.jsonl", "stdout.txt", "stderr.txt", *wire}
    assert (home / "wire/r1.request").read_bytes().startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"text/event-stream" in (home / "wire/s1.response").read_bytes()
    assert "ToolStarted" in (home / "journal.jsonl").read_text()


def test_workers_of_xdist_find_the_same(alone: Session, spread: Session) -> None:
    one, two = reported(alone), reported(spread)
    fields = ("agent", "scenario", "dialect", "mode", "invariant", "level", "outcome", "summary")
    assert [[c[f] for f in fields] for c in one["checks"]] == [[c[f] for f in fields] for c in two["checks"]]
    assert (one["totals"], one["agents"]) == (two["totals"], two["agents"])
    assert spread.ret == alone.ret
    for outcome in ("failed", "passed", "skipped"):
        assert spread.outcomes[outcome] == alone.outcomes[outcome]
    assert {path.name for path in (spread.folder / "kept").rglob("*")} == {
        path.name for path in (alone.folder / "kept").rglob("*")
    }


def test_controller_of_xdist_says_what_is_judged_and_tells_the_story(spread: Session) -> None:
    assert "agentguard: agents.py:careless, seed 7, endpoint on 127.0.0.1\n" in spread.text
    assert "agentguard: 32 at a time in each worker\n" in spread.text
    assert '           -k "cut-inside-value[openai-chat-stream]"\n' in spread.text
    assert "held 6 · violated 1 (must 1)" in spread.text


def test_seed_that_is_printed_is_the_one_of_the_workers(tmp_path: Path) -> None:
    chosen = ("-n", "2", "-k", "cut-before-finish and openai-chat")
    session = run_battery(tmp_path, *chosen, agents=("careless",))
    printed = set(re.findall(r"seed (\d+)", session.text))
    assert printed == set(re.findall(r"--agentguard-seed (\d+)", session.text))
    assert len(printed) == 1


@pytest.mark.parametrize("name", ["quick", "broken", "asleep"])
def test_agent_that_does_nothing_passes_no_check_and_ends(tmp_path: Path, name: str) -> None:
    options = ("--tb=no", "-q", "--agentguard-json", "report.json")
    session = run_battery(tmp_path, *options, agents=(name,))
    document = reported(session)
    assert session.ret == pytest.ExitCode.TESTS_FAILED
    assert set(session.outcomes) == {"failed", "skipped"}  # skipped: a cancel that cannot reach it
    assert document["totals"]["invalid"] == len(document["checks"]) > 300
