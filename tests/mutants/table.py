"""The table mutant × rule: every mutant, the reference and idle agents, through the real battery.

``python tests/mutants/table.py --write`` writes ``docs/reference/mutants.md`` from it, ``… NAME`` runs only
the mutants of these names. Where a mutant breaks a rule that its file does not name, or does not break one
that it names, that is printed and nothing written.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from pytest_agentguard import catalogue
from pytest_agentguard._core.errors import unknown_name
from pytest_agentguard._core.report import AgentInfo, Check, document
from pytest_agentguard._runner.battery import Battery
from pytest_agentguard._runner.cases import Case, Options, cases_of
from pytest_agentguard._runner.host import AgentHost
from pytest_agentguard.reference.mutants import Mutant, fetch_mutants, mutants
from pytest_agentguard.reports import json_report
from pytest_agentguard.reports.catalogue_pages import mutants_page

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "mutants.md"
REFERENCES = ("reference", "reference-trio", "reference-threads")
IDLE = ("returns_at_once", "raises_at_once", "sleeps_for_ever")

MUTANTS: Mapping[str, Mutant] = {**mutants(), **fetch_mutants()}
"""Every agent and every fetch tool without one guard, by name."""

RULES = {
    id: rule
    for id, rule in catalogue.invariants().items()
    if any(id in scenario.invariants for scenario in catalogue.scenarios().values())
}
"""The rules that scenarios give occasion to; each of them must be broken by a mutant."""

_IMPORT_SECONDS = 300.0  # all agents are imported at once
_AHEAD = 2  # threads that wait for results, for each run that may go on

STREAM = """
    control parallel-calls tool-error-told three-rounds broken-half-object nothing json-error error-kinds
    interleaved-calls near-name-tool cut-before-finish cut-in-text length-inside-value refusal-in-text
    error-after-call-then-done two-chats-one-cut any-shape-on-the-wire
""".split()  # noqa: SIM905 - a list literal of so many names is no clearer
"""What mutants with rules about replies meet, in openai-chat, stream: they break no other rule there."""

LIMITS = """
    control tool-error-told three-rounds broken-half-object cut-in-text length-inside-value
    failures-within-budget every-attempt-fails refused-requests same-ending-every-time
    failure-after-a-tool tool-in-every-turn batch-above-tool-limit redirect-307-elsewhere hold-before-head
    deadline-before-timeout cancel-in-request cancel-in-tool three-chats-one-cancelled
""".split()  # noqa: SIM905
"""The same for mutants with rules about budgets, boundaries and stops."""

FETCH = """
    fetch-control fetch-urls fetch-redirect-port fetch-503-for-ever fetch-dropped fetch-refusals-are-free
    fetch-eight-workers fetch-refused-by-server fetch-key-of-a-retry fetch-timeout fetch-deadline
    fetch-cancel-in-request laboratory-clean-up
""".split()  # noqa: SIM905
"""The same for fetch tools."""

SWEEPS: Mapping[str, tuple[str, ...]] = {
    "reference": (
        "cut-after-every-byte[openai-chat-stream]",
        "cut-after-every-byte[anthropic-stream]",
        "end-after-every-event[openai-chat-stream]",
        "end-after-every-event[anthropic-stream]",
        "split-at-every-byte[openai-chat-stream]",
    ),
    "reference-trio": (
        "cut-after-every-byte[openai-chat-stream]",
        "end-after-every-event[openai-chat-stream]",
        "end-after-every-event[anthropic-stream]",
        "split-at-every-byte[openai-chat-block]",
    ),
    "reference-threads": (
        "end-after-every-event[openai-chat-stream]",
        "end-after-every-event[anthropic-stream]",
    ),
    "incomplete_repairs_calls": (
        "cut-after-every-byte[openai-chat-stream]",
        "end-after-every-event[anthropic-stream]",
    ),
    "incomplete_runs_whole_calls": ("end-after-every-event[openai-chat-stream]",),
}
"""Who meets which sweep: they are a thousand runs each."""

FOR_RULE: Mapping[str, tuple[str, ...]] = {
    "stream-memory-bounded": ("endless-body[openai-chat-block]",),
    "stream-and-block-agree": tuple(
        f"{id}[openai-chat-both]"
        for id, scenario in catalogue.scenarios().items()
        if "stream-and-block-agree" in scenario.invariants
    ),
    "no-tool-on-incomplete-stream": (
        "cut-inside-value[anthropic-stream]",
        "cut-before-finish[anthropic-stream]",
    ),
    "no-tool-on-length-stop": ("length-inside-value[anthropic-stream]",),
    "no-success-on-error-event": ("error-in-text[anthropic-stream]",),
}
"""What the mutants of a rule meet besides its scenarios in openai-chat, stream."""


_SWEPT = {name.partition("[")[0] for names in SWEEPS.values() for name in names}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Every check of every agent, as in the JSON report, and what was not covered."""

    checks: tuple[Check, ...]
    uncovered: Mapping[str, Sequence[str]] = field(default_factory=dict)  # cases, by agent

    def of(self, agent: str) -> list[Check]:
        """The checks of one agent: a mutant by its name, any other by its spec."""
        spec = spec_of(agent)
        return [check for check in self.checks if check.agent == spec]

    def broken(self, agent: str) -> set[str]:
        """The rules that an agent broke, at whatever level."""
        return {check.invariant for check in self.of(agent) if check.outcome == "violated"}

    def to_json(self) -> str:
        """The JSON report."""
        agents = [
            AgentInfo(name=spec, not_covered=tuple(names)) for spec, names in sorted(self.uncovered.items())
        ]
        return json_report.dumps(document(version("pytest-agentguard"), agents, self.checks))

    @classmethod
    def from_json(cls, text: str) -> Evidence:
        """The reverse of ``to_json``."""
        data = json.loads(text)
        return cls(
            checks=tuple(Check.from_json(check) for check in data["checks"]),
            uncovered={agent["name"]: agent["not_covered"] for agent in data["agents"]},
        )


def spec_of(agent: str) -> str:
    """The spec of a mutant, of an idle agent, or of a shipped one."""
    if agent in IDLE:
        return f"idle_agents.py:{agent}"
    return agent if agent in REFERENCES else f"mutant_agents.py:{agent}"


def surfaces_of(agent: str) -> tuple[str, ...]:
    """What an agent has: a mutant the surface of its guard, any other both."""
    if agent in MUTANTS:
        return ("fetch",) if MUTANTS[agent].fetch is not None else ("chat",)
    return ("chat", "fetch")


def name_of(scenario: str, dialect: str, mode: str) -> str:
    """The name of a case."""
    return f"{scenario}[{dialect}-{mode}]" if dialect else f"{scenario}[fetch]"


def names_for(mutant: str) -> list[str]:
    """The cases of a mutant: those of its own rules first, then what all of its kind meet."""
    rules, surfaces = MUTANTS[mutant].breaks, surfaces_of(mutant)
    extra = [name for rule in rules for name in FOR_RULE.get(rule, ()) if "chat" in surfaces]
    own = [
        id
        for id, scenario in catalogue.scenarios().items()
        if set(rules) & set(scenario.invariants) and id not in _SWEPT and scenario.surface in surfaces
        if not scenario.strict and (scenario.covers("openai-chat", "stream") or scenario.surface == "fetch")
    ]
    if "fetch" in surfaces:
        return [name_of(id, "", "") for id in dict.fromkeys([*own, *FETCH])]
    families = {RULES[rule].family for rule in rules}
    common = STREAM if families == {"stream"} and "partial-text-kept" not in rules else LIMITS
    return list(dict.fromkeys([*extra, *(name_of(id, "openai-chat", "stream") for id in [*own, *common])]))


def cases() -> list[Case]:
    """Every case of the table, in the order in which it is best run."""
    names = {mutant: names_for(mutant) for mutant in MUTANTS}
    every = list(dict.fromkeys(name for own in names.values() for name in own))
    names |= dict.fromkeys(REFERENCES, every)
    found = [case for agent in IDLE for case in _offered(agent)]
    for agent, wanted in names.items():
        offered = {case.name: case for case in _offered(agent)}
        found += [offered[name] for name in (*SWEEPS.get(agent, ()), *wanted)]
    return sorted(found, key=_patience, reverse=True)


def _offered(agent: str) -> list[Case]:
    return cases_of(
        spec_of(agent),
        catalogue.scenarios().values(),
        dialects=tuple(catalogue.dialects()),
        modes=("stream", "block"),
        surfaces=surfaces_of(agent),
        strict=False,
    )


def _patience(case: Case) -> float:
    """How early a case begins: what takes long goes first, what waits for a slow control goes last."""
    if case.agent == spec_of("sleeps_for_ever"):
        return 1000.0 if case.scenario.control else 0.0
    slow = case.scenario.lanes or case.scenario.memory or case.scenario.limits.declared()
    return case.scenario.seconds * (5 if slow else 1)


def run(wanted: Iterable[Case] | None = None, *, jobs: int = 32) -> Evidence:
    """Run cases, every one of the table unless told otherwise, in one battery."""
    chosen = cases() if wanted is None else list(wanted)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentguard-table-")))
        hosts = {
            spec: stack.enter_context(AgentHost(spec, root=HERE, import_seconds=_IMPORT_SECONDS))
            for spec in dict.fromkeys(case.agent for case in chosen)
        }
        battery = Battery(
            hosts,
            scenarios=catalogue.scenarios(),
            dialects=catalogue.dialects(),
            invariants=catalogue.invariants(),
            scratch=scratch,
            options=Options(seed=1, jobs=jobs),
        )
        stack.callback(battery.close)
        waiting = stack.enter_context(ThreadPoolExecutor(_AHEAD * jobs))
        results = list(waiting.map(battery.result, chosen))
    uncovered: dict[str, list[str]] = {}
    for result in results:
        if result.uncovered:
            uncovered.setdefault(result.case.agent, []).append(f"{result.case.name}: {result.uncovered}")
    return Evidence(tuple(check for result in results for check in result.checks), uncovered)


def page(evidence: Evidence) -> str:
    """The documentation page of the table."""
    return mutants_page({mutant: evidence.broken(mutant) for mutant in MUTANTS}, RULES)


def surprises(evidence: Evidence) -> Iterator[str]:
    """Where what was seen is not what the file of a mutant says, and where the reference broke a rule."""
    expected = {name: set(mutant.breaks) for name, mutant in MUTANTS.items()}
    for agent in (*expected, *REFERENCES):
        breaks = expected.get(agent, set())
        if not evidence.of(agent):
            continue
        broken = evidence.broken(agent)
        yield from (f"{agent} keeps {rule}" for rule in sorted(breaks - broken))
        for check in evidence.of(agent):
            if check.outcome == "invalid" or (check.outcome == "violated" and check.invariant not in breaks):
                where = name_of(check.scenario, check.dialect, check.mode)
                yield f"{agent} {where} {check.invariant}: {check.outcome}: {check.summary}"


def _wrong_use(arguments: list[str]) -> str:
    """Why nothing is run; the page is about all mutants, so it is written after a run of all."""
    known = (*MUTANTS, *REFERENCES, *IDLE)
    names = [argument for argument in arguments if not argument.startswith("-")]
    options = [argument for argument in arguments if argument.startswith("-") and argument != "--write"]
    if options:
        return f"unknown option {options[0]!r}; there is --write"
    for name in names:
        if name not in known:
            return str(unknown_name("agent", name, known))
    return "--write takes no names: the page is about all mutants" if names and "--write" in arguments else ""


def main(arguments: list[str]) -> int:
    """Run the table, for the mutants that are named or for all; ``--write``, for all, writes the page."""
    named = [spec_of(argument) for argument in arguments if not argument.startswith("-")]
    problem = _wrong_use(arguments)
    if problem:
        print(problem, file=sys.stderr)
        return 2
    evidence = run([case for case in cases() if not named or case.agent in named])
    wrong = [
        *surprises(evidence),
        *(f"{agent} {case}" for agent in evidence.uncovered for case in evidence.uncovered[agent]),
    ]
    print(*wrong, sep="\n")
    if "--write" in arguments and not wrong:
        PAGE.write_text(page(evidence), encoding="utf-8")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
