"""The JSON report: valid, complete, finite, in a fixed order, never half written."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest
import report_documents as given
import report_ledgers as ledgers

from pytest_agentguard._core.report import AgentInfo, document
from pytest_agentguard.events import RequestReceived, StreamEnded, ToolStarted
from pytest_agentguard.reports import json_report

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/reference/report.schema.json").read_text())


def violated(**arguments: object) -> dict:
    ledger = ledgers.Ledger([ledgers.asked(), ledgers.ended(), *ledgers.ran(**arguments)])
    verdict = ledgers.verdict(ledger, "r", "facts", RequestReceived, StreamEnded, ToolStarted)
    return document("0.1.0", [AgentInfo(name="langchain")], [ledgers.check(verdict, "s")])


def test_the_report_is_valid_against_its_schema():
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.check_schema(SCHEMA)

    for report in (given.battery(), violated(x="evid"), document("0", [], [])):
        validator.validate(json.loads(json_report.dumps(report)))


def test_the_schema_refuses_what_is_no_report():
    report = json.loads(json_report.dumps(given.battery()))
    report["checks"][0]["outcome"] = "passed"

    with pytest.raises(jsonschema.ValidationError, match="'passed' is not one of"):
        jsonschema.validate(report, SCHEMA)


def test_numbers_that_json_lacks_are_written_as_their_names():
    report = violated(x=float("nan"), y=float("-inf"), z=1.5)

    def refuse(name: str) -> None:
        raise AssertionError(name)

    read = json.loads(json_report.dumps(report), parse_constant=refuse)

    assert read["checks"][0]["evidence"][2]["arguments"] == {"x": "nan", "y": "-inf", "z": 1.5}


def test_values_that_json_lacks_are_written_as_their_repr():
    nested: list = []
    nested.append(nested)
    read = json.loads(json_report.dumps(violated(x={1}, y=b"\xff", z={2: ("a",)}, n=nested)))

    arguments = read["checks"][0]["evidence"][2]["arguments"]
    assert (arguments["x"], arguments["y"], arguments["z"]) == ("{1}", "b'\\xff'", {"2": ["a"]})


def test_lone_surrogates_and_control_characters_stay_ascii():
    text = json_report.dumps(violated(x="\ud800\x1b[31m é"))

    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text)["checks"][0]["evidence"][2]["arguments"] == {"x": "\ud800\x1b[31m é"}


def test_long_bodies_are_cut_and_say_how_long_they_were():
    read = json.loads(json_report.dumps(violated(x="y")))

    body = read["checks"][0]["evidence"][0]["body"]
    assert body.endswith("x… (5002 characters)")
    assert len(body) == 4096 + len("… (5002 characters)")


def test_the_order_in_which_checks_came_does_not_show():
    report = given.battery()
    shuffled = {**report, "checks": random.Random(4).sample(report["checks"], len(report["checks"]))}

    assert json_report.dumps(shuffled) == json_report.dumps(report)


def test_write_replaces_the_old_report_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "made" / "report.json"
    json_report.write(path, document("1", [], []))
    json_report.write(str(path), given.battery())

    assert json.loads(path.read_text())["version"] == "0.1.0"
    assert [file.name for file in path.parent.iterdir()] == ["report.json"]


def test_a_write_that_fails_keeps_what_was_there_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "report.json"
    path.mkdir()  # a folder cannot be replaced by a file
    (path / "kept").touch()

    with pytest.raises(OSError):
        json_report.write(path, given.battery())

    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
    assert (path / "kept").exists()
