"""What pytest loads: options, marker, fixtures. Everything else is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec

    from pytest_agentguard._plugin.fixtures import AgentGuard
    from pytest_agentguard._plugin.tool_spies import ToolSpies
    from pytest_agentguard._witnesses.counting_server import CountingServer
    from pytest_agentguard._witnesses.endpoint import Endpoint

_MARKER = (
    "agentguard(*ids, allow_not_exercised=False, **limits): judge the test by these rules when it ends; "
    "limits are what the agent must keep to, as in attempts=3 or output_bytes=128."
)
_SWITCH = {"action": "store_true", "default": None}
_LIST = {"action": "append", "default": None}
_OPTIONS: tuple[tuple[str, Any, dict[str, Any], str], ...] = (
    ("", "bool", _SWITCH, "Add the battery: all scenarios against the registered or the reference agent."),
    ("-only", "bool", _SWITCH, "Run the battery and leave all other tests out."),
    (
        "-agent",
        "linelist",
        {**_LIST, "metavar": "SPEC"},
        "Judge this agent: module:name, path/to/file.py:name or the name of a shipped adapter. Repeatable.",
    ),
    (
        "-dialect",
        "linelist",
        {**_LIST, "metavar": "D"},
        "Speak only this dialect, as openai-chat or anthropic. Repeatable. Default: all that it offers.",
    ),
    (
        "-level",
        "string",
        {"choices": ("must", "should", "may")},
        "Fail on violations of this level or worse: must, should or may. Default: should.",
    ),
    ("-strict", "bool", _SWITCH, "Add the alarms that only an agent reading raw bytes can avoid."),
    ("-jobs", "int", {"type": int, "metavar": "N"}, "Let at most N runs of agents overlap. Default: 32."),
    ("-seed", "int", {"type": int, "metavar": "N"}, "Make ids and nonces from N. Default: a new one."),
    ("-json", "string", {"metavar": "FILE"}, "Write every verdict with its evidence to FILE as JSON."),
    ("-artifacts", "string", {"metavar": "DIR"}, "Keep output, wire bytes and journal of violations in DIR."),
    ("-list", "bool", _SWITCH, "List agents, dialects, scenarios and rules, and run nothing."),
)  # fmt: skip
_FINDER = pytest.StashKey["_PlainFinder"]()


class _PlainFinder:
    """Finds our modules ahead of pytest's assertion rewriting, which would parse each of them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of one of our own modules, with the plain loader; None for all others."""
        if path is None or not name.startswith("pytest_agentguard."):
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, path, target)


# -- options ----------------------------------------------------------------------------------------


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that a conftest may implement."""
    from pytest_agentguard import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare every option with its ini twin."""
    group = parser.getgroup("agentguard", "agentguard: proof that LLM agents are safe when things go wrong")
    for suffix, kind, how, text in _OPTIONS:
        group.addoption(f"--agentguard{suffix}", help=f"{text} Ini: {_ini(suffix)}.", **how)
        default = {"bool": False, "linelist": []}.get(kind)
        parser.addini(_ini(suffix), f"As --agentguard{suffix}. {text}", type=kind, default=default)


def _ini(suffix: str) -> str:
    plural = "s" if suffix in ("-agent", "-dialect") else ""
    return f"agentguard{suffix.replace('-', '_')}{plural}"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load our modules plainly, also those that a conftest imports."""
    _load_plainly(early_config)


@pytest.hookimpl(tryfirst=True)  # before pytest-asyncio warns of an option that nobody has set
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the battery where it is asked for."""
    config.addinivalue_line("markers", _MARKER)
    _load_plainly(config)
    _hush_asyncio(config)
    if config.getoption("agentguard") or config.getini("agentguard"):
        from pytest_agentguard._plugin.battery import BatteryPlugin

        config.pluginmanager.register(BatteryPlugin(config), "agentguard-battery")
        return
    for suffix, *_ in _OPTIONS:
        if config.getoption(f"agentguard{suffix.replace('-', '_')}") is not None:
            raise pytest.UsageError(
                f"--agentguard{suffix} is about the battery, which does not run: add --agentguard"
            )


def _hush_asyncio(config: pytest.Config) -> None:
    """Keep pytest-asyncio, which came with us, from warning suites that say nothing of it.

    Where warnings are errors, this one would end the session before it begins.
    """
    ini = config.inipath
    if ini is not None and "asyncio_" in ini.read_text(encoding="utf-8", errors="replace"):
        return
    import warnings

    warnings.filterwarnings("ignore", 'The configuration option "asyncio_default_fixture_loop_scope"')


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Print the list where it is asked for, instead of running anything."""
    if not (config.getoption("agentguard_list") or config.getini("agentguard_list")):
        return None
    from pytest_agentguard._plugin.listing import show

    return show(config)


def _load_plainly(config: pytest.Config) -> None:
    if _FINDER in config.stash:
        return
    import sys

    finder = config.stash[_FINDER] = _PlainFinder()
    sys.meta_path.insert(0, finder)
    config.add_cleanup(lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None)


# -- tests that use the marker or a fixture -----------------------------------------------------------


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist tells its controller that there is something to run
def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for tests of ours: a wrong marker ends the session, and only such tests get hooks per test."""
    ours = [item for item in session.items if _is_ours(item)]
    if ours:
        from pytest_agentguard._plugin import verdicts

        verdicts.prepare(session.config, ours)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """End the session of pytest-xdist's controller with the usage error that a worker has met."""
    problem = getattr(node, "workeroutput", {}).get("agentguard")
    if problem:
        raise pytest.UsageError(problem)


def _is_ours(item: pytest.Item) -> bool:
    if "agentguard" in getattr(item, "fixturenames", ()):
        return True
    return item.get_closest_marker("agentguard") is not None


@pytest.fixture
def agentguard(request: pytest.FixtureRequest) -> Iterator[AgentGuard]:
    """What the witnesses of this test saw: ``ledger``, ``check(id)``, ``story()``, ``run()``."""
    from pytest_agentguard._plugin import verdicts

    with verdicts.opened(request.node) as guard:
        yield guard


@pytest.fixture
def sse_endpoint(agentguard: AgentGuard) -> Iterator[Endpoint]:
    """A model server on loopback, one per test: ``play(Reply()…)``, ``base_url(dialect)``, ``requests``."""
    with agentguard.endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def counting_server(agentguard: AgentGuard) -> Iterator[CountingServer]:
    """An HTTP server on loopback, one per test, that counts what arrives: ``route("/x", status=503)``."""
    with agentguard.counting_server() as server:
        yield server


@pytest.fixture
def tool_spy(agentguard: AgentGuard) -> Iterator[ToolSpies]:
    """Makes tools that record their calls: ``tool_spy("delete_file", path=str)``, ``tool_spy(function)``."""
    with agentguard.tool_spies() as spies:
        yield spies
