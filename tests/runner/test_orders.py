"""What host and warm parent tell each other survives JSON, and the agent's environment is clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agentguard import RECORD, Behaviour, Limits, ToolSpec
from pytest_agentguard._runner.environment import DUMMY, clean
from pytest_agentguard._runner.orders import Hello, JobOrder, RunOrder, RunReceipt
from pytest_agentguard._runner.settings import Settings

SLOW = ToolSpec(name="slow", behaviour=Behaviour(does="hold", limit=2.0, size=7))
JOB = JobOrder(
    lane="a",
    prompt="Say ü\n",
    dialect="anthropic",
    base_url="http://127.0.0.1:1",
    root_url="http://127.0.0.1:1",
    mode="block",
    tools=(RECORD, SLOW),
    limits=Limits(attempts=2, idle_timeout=0.5),
    final="final-1",
    session="s1",
    env={"A": "1"},
)


def test_an_order_survives_json() -> None:
    order = RunOrder(id="r1", jobs=(JOB, JOB), journal=Path("/tmp/j"), memory=True, env={"B": "2"})

    assert RunOrder.from_json(order.to_json()) == order
    assert "\n" not in order.to_json()


def test_a_hello_survives_json() -> None:
    hello = Hello(name="n", version="1", versions={"n": "1"}, declared=Limits(rounds=3), error="a\nb")

    assert Hello.from_json(hello.to_json()) == hello


def test_a_receipt_survives_json() -> None:
    receipt = RunReceipt(stdout="\\xff\n", stderr="ü", seconds=0.5, error="e")

    assert RunReceipt.from_json(receipt.to_json()) == receipt


def test_settings_survive_a_command_line() -> None:
    settings = Settings(control=5, spec="m:f", root="/r", path=("/a", "/b"), fresh=True)

    assert Settings.from_json(settings.command()[-1]) == settings


@pytest.mark.parametrize(("lanes", "own"), [(["a"], "a"), (["a", "b"], "")])
def test_a_fact_about_the_process_has_a_lane_where_there_is_only_one(lanes: list[str], own: str) -> None:
    jobs = tuple(
        JobOrder(lane=lane, prompt="", dialect="openai-chat", base_url="", root_url="") for lane in lanes
    )

    assert RunOrder(id="r1", jobs=jobs, journal=Path("j")).own_lane == own


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "hf_token", "STRIPE_KEY"],
)
def test_credentials_get_a_dummy_value(name: str) -> None:
    assert clean({name: "real"})[name] == DUMMY


@pytest.mark.parametrize(
    "name",
    ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "OPENAI_BASE_URL", "PYTEST_CURRENT_TEST", "SSH_AUTH_SOCK"],
)
def test_proxies_addresses_and_our_own_variables_are_dropped(name: str) -> None:
    assert name not in clean({name: "value"})


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LANG", "TOKENIZERS_PARALLELISM", "KEYBOARD", "MY_APP_CONFIG"]
)
def test_everything_else_stays(name: str) -> None:
    assert clean({name: "value"})[name] == "value"


def test_no_proxy_is_used_for_anything() -> None:
    assert (
        clean({"no_proxy": "a", "OMP_NUM_THREADS": "4"}).items()
        >= {
            "NO_PROXY": "*",
            "no_proxy": "*",
            "OMP_NUM_THREADS": "4",
            "ANTHROPIC_API_KEY": DUMMY,
        }.items()
    )
