"""The story of a check, word for word."""

from __future__ import annotations

from pathlib import Path

import report_ledgers as given

from pytest_agentguard import Ledger, Level, Outcome, Verdict
from pytest_agentguard._core.report import Check
from pytest_agentguard.events import (
    ErrorSent,
    LeftBehind,
    ReplyStarted,
    RequestReceived,
    RunEnded,
    StreamEnded,
    StreamReleased,
    ToolCancelled,
    ToolMiscalled,
    ToolRaised,
    ToolStarted,
    Witness,
)
from pytest_agentguard.reports import story
from pytest_agentguard.reports.text import columns
from pytest_agentguard.reports.told import Telling, stream_of

RULE = "no-tool-on-incomplete-stream"
HINT = "a truncated call is not the call that the model made; these arguments were repaired"


def render(verdict: Verdict, ledger: Ledger, scenario: str, **more: object) -> list[str]:
    check = given.check(verdict, scenario)
    rerun = f'pytest --agentguard --agentguard-agent langchain -k "{scenario} and openai-chat"'
    case = {"agent": "langchain", "scenario": scenario, "dialect": "openai-chat", "mode": "stream"}
    fields = {"width": 110, "rerun": rerun, **more}
    return story.render(**case, check=check, ledger=ledger, **fields).split("\n")


def as_check(verdict: Verdict) -> Check:
    return given.check(verdict, "cut-inside-value")


def cut_story(**more: object) -> list[str]:
    ledger = given.cut_inside_value()
    facts = "tool=record started from stream=s1, complete=False"
    verdict = given.verdict(ledger, RULE, facts, StreamEnded, ToolStarted)
    return render(verdict, ledger, "cut-inside-value", hint=HINT, **more)


def test_cut_inside_a_value_that_ran_is_told_from_offer_to_rerun():
    assert cut_story() == [
        "____ langchain · no-tool-on-incomplete-stream · openai-chat, stream · must ____",
        'offered    record(x="evidence-7f3a"), cut inside the value:  {"x": "evid',
        "delivered  412 of 412 bytes, then a clean end, no finish reason  (as planned)",
        'done       record(x="evid") ran after the end',
        'claimed    success, "final-91c2"',
        "finding    tool=record started from stream=s1, complete=False",
        "why        a truncated call is not the call that the model made; these arguments were repaired",
        "  #5  endpoint  StreamEnded  complete=False end=clean sent=412",
        '  #6  tool-spy  ToolStarted  tool=record arguments={"x": "evid"}',
        'rerun      pytest --agentguard --agentguard-agent langchain -k "cut-inside-value and openai-chat"',
    ]


def test_the_story_in_the_docs_is_the_one_that_is_told():
    page = Path(__file__).parents[2] / "docs/explanation/how-a-verdict-is-reached.md"

    told = page.read_text(encoding="utf-8").split("```text\n")[1].split("\n```")[0]

    assert told.split("\n") == cut_story()


def test_a_narrow_plain_terminal_gets_every_fact_and_a_command_that_can_be_pasted():
    lines = cut_story(width=60, unicode=False)

    assert lines == [
        "langchain - no-tool-on-incomplete-stream - openai-chat,",
        "  stream - must",
        'offered    record(x="evidence-7f3a"), cut inside the value:',
        '           {"x": "evid',
        "delivered  412 of 412 bytes, then a clean end, no finish",
        "           reason  (as planned)",
        'done       record(x="evid") ran after the end',
        'claimed    success, "final-91c2"',
        "finding    tool=record started from stream=s1,",
        "           complete=False",
        "why        a truncated call is not the call that the model",
        "           made; these arguments were repaired",
        "  #5  endpoint  StreamEnded  complete=False end=clean sen...",
        '  #6  tool-spy  ToolStarted  tool=record arguments={"x": ...',
        "rerun      pytest --agentguard \\",
        "           --agentguard-agent langchain \\",
        '           -k "cut-inside-value and openai-chat"',
    ]
    assert all(line.isascii() and len(line) <= 60 for line in lines)


def test_false_success_says_that_the_final_answer_is_missing():
    ledger = given.false_success()
    facts = "run returned, turn never completed"
    verdict = given.verdict(
        ledger, "no-success-on-incomplete-stream", facts, StreamEnded, RunEnded, level=Level.SHOULD
    )

    assert render(verdict, ledger, "cut-in-text")[:-1] == [
        "____ langchain · no-success-on-incomplete-stream · openai-chat, stream · should ____",
        'offered    "Let me think about it", cut in the text',
        "delivered  205 of 205 bytes, then a clean end, no finish reason  (as planned)",
        "done       no tool ran; 1 request arrived",
        'claimed    success, "Let me "  (the final answer final-91c2 is not in it)',
        "finding    run returned, turn never completed",
        "  #4  endpoint  StreamEnded  complete=False end=clean sent=205",
        '  #5  runner    RunEnded     how=returned answer="Let me "',
    ]


def test_stall_that_was_not_ended_says_who_let_go():
    ledger = given.stall()
    facts = "attempt of stream=s1 had not ended at release by=limit"
    verdict = given.verdict(ledger, "stall-ends", facts, StreamReleased)

    assert render(verdict, ledger, "stall-inside-value")[1:-1] == [
        'offered    record(x="evidence-7f3a"), stall inside the value:  {"x": "evid',
        "delivered  380 of 380 bytes, then silence, until its limit, no finish reason  (as planned)",
        "done       no tool ran; 1 request arrived",
        "claimed    raised openai.APIError: stream ended early",
        "finding    attempt of stream=s1 had not ended at release by=limit",
        "  #6  endpoint  StreamReleased  hold=stall by=limit",
    ]


def test_crashed_run_names_the_signal_and_quotes_the_last_words_without_painting():
    ledger = given.crashed()
    verdict = given.verdict(ledger, "nothing-dropped-in-silence", "process died", RunEnded)

    plan = "(planned: 412 bytes, then a clean end)"
    assert render(verdict, ledger, "reset-inside-value")[1:-1] == [
        'offered    record(x="evidence-7f3a"), reset inside the value:  {"x": "evid',
        "delivered  300 of 412 bytes, then the client left, no finish reason  " + plan,
        "done       no tool ran; 1 request arrived",
        "claimed    nothing: its process died of SIGKILL",
        "stderr     Fatal: \\x1b[31mout of memory",
        "finding    process died",
        "  #8  runner  RunEnded  how=signalled code=9",
    ]


def test_failed_control_makes_an_invalid_story_that_says_what_failed():
    ledger = given.control_failed()
    facts = "control failed: tool=record observed=0 expected=1"
    verdict = given.verdict(ledger, "control", facts, RunEnded, outcome=Outcome.INVALID)

    assert render(verdict, ledger, "control", hint=HINT)[:-1] == [
        "____ langchain · control · openai-chat, stream · invalid ____",
        "invalid    control failed: tool=record observed=0 expected=1",
        'offered    record(x="evidence-7f3a")',
        "delivered  412 of 412 bytes, then a clean end, finish reason tool_calls  (as planned)",
        "done       no tool ran; 1 request arrived",
        'claimed    success, "nothing to do"  (the final answer final-91c2 is not in it)',
        "why        a run whose control or fault did not work proves nothing",
        '  #7  runner  RunEnded  how=returned answer="nothing to do"',
    ]


def test_what_depends_on_a_failed_control_does_not_tell_its_story_again():
    ledger = given.control_failed()
    facts = "control failed: tool=record observed=0 expected=1"
    verdict = given.verdict(ledger, RULE, facts, RunEnded, outcome=Outcome.INVALID)

    assert [line[:9].strip() for line in render(verdict, ledger, "cut-inside-value")[1:]] == [
        "invalid",
        "why",
        "rerun",
    ]


def test_a_marker_that_is_missing_behind_a_finish_reason_is_told_as_it_is():
    ledger = Ledger([given.began(), given.ended(sent=9, planned=9, finished=True)])

    assert Telling(ledger, "s1").delivered() == (
        "9 of 9 bytes, then a clean end, no completion marker  (as planned)"
    )


def test_the_facts_of_a_test_are_whole_on_a_narrow_terminal():
    verdict = Verdict(
        RULE, Outcome.VIOLATED, Level.MUST, "tool=record started, stream=s1 complete=False end=clean"
    )

    assert story.render_finding(verdict, Ledger(), width=40).split("\n") == [
        "no-tool-on-incomplete-stream violated",
        "  tool=record started, stream=s1",
        "    complete=False end=clean",
    ]


def test_fault_that_did_not_fire_is_told_with_what_was_planned():
    ledger = Ledger([given.began(), given.ended(sent=10, planned=99, planned_end="reset", fired=False)])

    assert Telling(ledger, "s1").delivered() == (
        "10 of 99 bytes, then a clean end, no finish reason  "
        "(planned: 99 bytes, then a reset, the fault did not fire)"
    )


def test_sweep_tells_the_first_offset_that_breaks_and_only_its_own_lane():
    ledger = given.sweep()
    facts = "tool=record started from stream=s1, complete=False"
    verdict = given.verdict(ledger, RULE, facts, StreamEnded, ToolStarted, lane="byte 2")

    assert render(verdict, ledger, "cut-after-every-byte", label="byte 2", hint=HINT, rerun="")[1:] == [
        'offered    record(x="evidence-7f3a"), cut at a byte',
        "delivered  2 of 2 bytes, then a clean end, no finish reason  (as planned)",
        'done       record(x="") ran after the end',
        'claimed    success, "final-91c2"',
        "sweep      first offset that breaks: byte 2, 3 tried",
        "finding    tool=record started from stream=s1, complete=False",
        "why        a truncated call is not the call that the model made; these arguments were repaired",
        "  #11  endpoint  StreamEnded  complete=False end=clean sent=2",
        '  #12  tool-spy  ToolStarted  tool=record arguments={"x": ""}',
    ]


def test_evidence_of_several_lanes_names_the_lane_of_each_fact():
    ledger = given.sweep()
    ends = tuple(ledger.of(StreamEnded))[:2]
    verdict = Verdict("same-answer-at-any-split", Outcome.VIOLATED, Level.MUST, "answers differ", ends)

    assert render(verdict, ledger, "split-at-every-byte", rerun="")[-2:] == [
        '  #5   endpoint  StreamEnded  complete=False end=clean sent=1 lane="byte 1"',
        '  #11  endpoint  StreamEnded  complete=False end=clean sent=2 lane="byte 2"',
    ]


def test_an_invalid_sweep_tells_the_lane_that_the_reason_names_and_never_a_mix_of_lanes():
    ledger = given.sweep()

    def told(reason: str) -> list[str]:
        verdict = Verdict(RULE, Outcome.INVALID, Level.MUST, reason)
        return [line[:9].strip() for line in render(verdict, ledger, "sweep", rerun="")[1:]]

    assert told("fault of stream=s1 not delivered") == ["invalid", "why"]
    assert told("reply 2 of lane=odd was never requested") == ["invalid", "why"]
    ledger = Ledger([given.began("byte-2"), given.began("byte-3"), given.ended(lane="byte-2")])
    assert told("reply 2 of lane=byte-2 was never requested") == [
        "invalid",
        "delivered",
        "done",
        "claimed",
        "why",
    ]


def test_a_sweep_over_names_speaks_of_lanes():
    verdict = Verdict("no-success-on-error-event", Outcome.VIOLATED, Level.MUST, "facts")

    assert render(verdict, Ledger([given.began("auth")]), "error-kinds", label="auth", rerun="")[3] == (
        "sweep      first lane that breaks: auth"
    )


def test_long_evidence_is_cut_and_counted():
    requests = [given.asked(f"r{n}") for n in range(1, 21)]
    ledger = Ledger([given.began(), *requests])
    verdict = given.verdict(ledger, "no-request-past-budget", "observed=20 allowed=2", RequestReceived)

    lines = render(verdict, ledger, "always-503")

    assert sum("RequestReceived" in line for line in lines) == 12
    assert lines[-2] == "  … 8 more"


def test_a_story_without_any_ledger_still_says_why_it_is_invalid():
    verdict = Verdict(RULE, Outcome.INVALID, Level.MUST, "control failed: agent could not be imported: no")

    assert render(verdict, Ledger(), "cut-inside-value", rerun="") == [
        "____ langchain · no-tool-on-incomplete-stream · openai-chat, stream · invalid ____",
        "invalid    control failed: agent could not be imported: no",
        "why        the same job with nothing wrong has to work first; see the control",
    ]


def test_nothing_that_an_agent_says_can_paint_or_break_the_lines():
    hostile = "\x1b[2J\x1b]0;owned\x07\r\nheld 999\u202e\u2028 \x9b31m"
    ledger = Ledger(
        [
            given.began(),
            given.answered("cut", "cut"),
            given.offered(),
            given.ended(),
            *given.ran(x=hostile),
            RunEnded(witness=Witness.RUNNER, how="raised", error=hostile, error_type=hostile),
        ]
    )
    verdict = given.verdict(ledger, RULE, f"answer={hostile}", ToolStarted, RunEnded)

    for unicode in (True, False):
        text = story.render(
            agent=hostile,
            scenario="x",
            dialect="openai-chat",
            mode="stream",
            check=given.check(verdict, "x"),
            ledger=ledger,
            hint="h",
            rerun=f"pytest -k {hostile!r}",
            unicode=unicode,
        )
        assert all(c.isprintable() for line in text.split("\n") for c in line)
        assert unicode or text.isascii()
        assert not any(line.startswith("held") for line in text.split("\n"))


def test_no_line_is_wider_than_the_terminal_whatever_the_script():
    wide = "日本語のとても長い答え" * 40
    ledger = Ledger([given.began(), given.ended(), *given.ran(x=wide), given.returned(wide)])
    verdict = given.verdict(ledger, RULE, wide, ToolStarted, RunEnded)

    for width in (40, 61, 80, 133):
        lines = render(verdict, ledger, "cut-inside-value", width=width, rerun="", hint=HINT)
        assert max(map(columns, lines)) <= width


def test_a_long_answer_is_cut_and_says_how_long_it_was():
    ledger = Ledger([given.began(), given.returned("final-91c2" + "x" * 10_000)])

    claimed = Telling(ledger, "").claimed()

    assert claimed.endswith("x… (10010 characters)")
    assert len(claimed) == len("success, ") + 300


def test_an_endless_text_that_was_offered_is_cut_to_a_line_or_two():
    ledger = Ledger(
        [given.began(), given.answered("text without end, 8 MiB", "flood", text="and so on, " * 10_000)]
    )

    offered = Telling(ledger, "s1").offered()

    assert offered.startswith('"and so on, and so on, ')
    assert offered.endswith("… (110000 characters), text without end, 8 MiB")
    assert len(offered) < 160


# -- the rows, one by one -----------------------------------------------------------------------------


def claimed_by(**end: object) -> str:
    return Telling(Ledger([given.began(), RunEnded(witness=Witness.RUNNER, **end)]), "").claimed()


def test_every_end_of_a_run_has_its_words():
    assert claimed_by(how="returned", answer="final-91c2") == 'success, "final-91c2"'
    assert claimed_by(how="raised", error_type="builtins.ValueError", error="bad") == "raised ValueError: bad"
    assert claimed_by(how="raised") == "raised an exception"
    assert claimed_by(how="killed") == "nothing: killed at the hard deadline"
    assert claimed_by(how="exited", code=3) == "nothing: its process exited with status 3"
    assert claimed_by(how="exited", error="the supervisor is gone") == "nothing: the supervisor is gone"
    assert claimed_by(how="signalled", code=11) == "nothing: its process died of SIGSEGV"
    assert claimed_by(how="signalled", code=9999) == "nothing: its process died of signal 9999"
    assert claimed_by(how="limited", error="3 rounds") == "a limit: 3 rounds"
    assert claimed_by(how="failed", answer="no") == 'failure: "no"'
    assert claimed_by(how="cancelled") == "cancelled"
    assert Telling(Ledger([given.began()]), "").claimed() == "nothing: the run has not ended"
    assert Telling(Ledger(), "").claimed() == ""


def done_by(*events: object) -> str:
    return Telling(Ledger([given.ended(), *events]), "s1").done()


def test_every_fate_of_a_tool_has_its_words():
    tool = {"witness": Witness.TOOL_SPY, "tool": "record", "invocation": "i1"}
    start = ToolStarted(**tool, arguments={"x": 1})
    cancelled, swallowed = ToolCancelled(**tool), ToolCancelled(**tool, swallowed=True)

    assert done_by(start) == "record(x=1) started, end unknown, after the end"
    assert done_by(start, ToolRaised(**tool)) == "record(x=1) ran and raised after the end"
    assert done_by(start, cancelled) == "record(x=1) started and was cancelled after the end"
    assert done_by(start, swallowed) == "record(x=1) started and swallowed its cancel after the end"
    assert Telling(Ledger([start, given.ended()]), "s1").done() == (
        "record(x=1) started, end unknown, before the end"
    )
    miscalled = ToolMiscalled(
        witness=Witness.TOOL_SPY, tool="record", error="TypeError", arguments={"z": None}
    )
    assert done_by(miscalled) == "record(z=null) did not fit the signature, nothing ran"
    assert done_by(*[start] * 5).endswith("; 2 more")


def offered_by(*events: object) -> str:
    return Telling(Ledger(events), "s1").offered()


def test_every_offer_has_its_words():
    start = given.answered("cut", "cut")
    broken = given.offered(arguments='{"command":', problem="broken")
    unknown = given.offered(known=False)

    assert offered_by(start, broken) == 'record with the arguments  {"command":, broken on purpose, cut'
    assert offered_by(start, unknown) == (
        'record(x="evidence-7f3a"), a tool that was not offered to the model, cut'
    )
    assert offered_by(start, given.offered(), given.ended(begun=())) == (
        'record(x="evidence-7f3a"), cut: nothing of it left'
    )
    assert (
        offered_by(start, given.offered(), given.ended(whole=("s1.c1",))) == 'record(x="evidence-7f3a"), cut'
    )


def test_a_status_and_a_page_are_told_as_such():
    status = given.answered("always 503", "status-503", "", status=503)
    error = ErrorSent(witness=Witness.ENDPOINT, stream="s1", kind="overloaded", where="status")
    sent = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False, sent=70, planned=70)
    ledger = Ledger([status, error, sent])

    assert Telling(ledger, "s1").offered() == "status 503, error overloaded in the status, always 503"
    assert Telling(ledger, "s1").delivered() == "70 of 70 bytes, then a clean end  (as planned)"
    assert offered_by(given.answered("HTML page", "html", "")) == "an answer, HTML page"


def test_the_story_is_about_the_stream_of_the_evidence_else_about_the_spoiled_one():
    def reply(stream: str, fault: str) -> ReplyStarted:
        return ReplyStarted(witness=Witness.ENDPOINT, stream=stream, request=stream, fault=fault)

    ledger = Ledger([reply("s1", ""), reply("s2", "cut"), reply("s3", "")])

    assert stream_of(ledger, ["s3"]) == "s3"
    assert stream_of(ledger, []) == "s2"
    assert stream_of(ledger, ["?"]) == "s2"
    assert stream_of(Ledger([reply("s1", "")]), []) == "s1"
    assert stream_of(Ledger(), ["s1"]) == ""
    assert Telling(ledger, "s3").offered() == "an answer  (reply 3 of 3)"


# -- fixture mode -------------------------------------------------------------------------------------


def test_a_finding_reads_as_facts_evidence_rerun():
    cut = StreamEnded(witness=Witness.ENDPOINT, stream="s1", complete=False, sent=412)
    run = ToolStarted(witness=Witness.TOOL_SPY, call="c1", tool="pay", stream="s1")
    ledger = Ledger([given.began()] * 5 + [cut, run])
    facts = "tool=pay started from stream=s1, complete=False"
    verdict = given.verdict(ledger, RULE, facts, StreamEnded, ToolStarted)
    rerun = 'pytest --agentguard -k "cut-before-completion and openai-chat"'

    assert story.render_finding(verdict, ledger, rerun=rerun).split("\n") == [
        "no-tool-on-incomplete-stream violated",
        "  tool=pay started from stream=s1, complete=False",
        "    #6  endpoint    StreamEnded   stream=s1 complete=False sent=412",
        "    #7  tool-spy    ToolStarted   call=c1 tool=pay stream=s1",
        '  rerun: pytest --agentguard -k "cut-before-completion and openai-chat"',
    ]


def test_a_rule_that_was_not_exercised_names_the_missing_occasion_and_what_was_seen():
    verdict = Verdict(RULE, Outcome.NOT_EXERCISED, Level.MUST)
    ledger = Ledger([given.asked(), given.answered("healthy", ""), given.asked("r2")])

    assert story.render_finding(verdict, ledger, occasion="a response with a call that was cut").split(
        "\n"
    ) == [
        "no-tool-on-incomplete-stream not exercised",
        "  occasion missing: a response with a call that was cut",
        "  seen: RequestReceived=2 ReplyStarted=1",
    ]
    assert story.render_finding(verdict, Ledger()).split("\n")[1:] == [
        "  occasion missing",
        "  seen: nothing",
    ]


def test_an_invalid_and_a_held_rule_read_the_same_way():
    end = given.ended(sent=10, planned=99, planned_end="reset", fired=False)
    ledger = Ledger([end])
    facts = "fault of stream=s1 not delivered: end=clean planned=reset sent=10 planned=99"
    invalid = given.verdict(ledger, RULE, facts, StreamEnded, outcome=Outcome.INVALID)
    held = given.verdict(ledger, RULE, "", StreamEnded, outcome=Outcome.HELD)

    assert story.render_finding(invalid, ledger).split("\n") == [
        "no-tool-on-incomplete-stream invalid",
        f"  {facts}",
        "    #1  endpoint    StreamEnded   stream=s1 complete=False sent=10 fired=False",
    ]
    assert story.render_finding(held, ledger).split("\n")[1] == "  occasions=1"


# -- events and ledgers -------------------------------------------------------------------------------


def test_an_event_line_leaves_defaults_out_and_shows_fields_in_a_useful_order():
    event = next(iter(Ledger([given.ended(planned=500, planned_end="reset")])))

    assert story.event_line(event, 140) == (
        "  #1  endpoint    StreamEnded   stream=s1 complete=False planned_end=reset sent=412 planned=500 "
        'begun=s1.c1 arguments_sent=\'{"x": "evid\''
    )


def test_an_event_line_cuts_long_values_with_their_length_and_says_only_present_of_credentials():
    line = story.event_line(next(iter(Ledger([given.asked()]))), 190)

    assert line.startswith(
        "  #1  endpoint    RequestReceived  request=r1 turn=1 credentials=present mode=stream "
        "path=/v1/chat/completions dialect=openai-chat body_bytes=5002 body={xxx"
    )
    assert line.endswith("x… (5002 characters)")
    assert len(line) == 190
    bare = RequestReceived(witness=Witness.ENDPOINT, request="r1")
    assert "credentials=absent" in story.event_line(bare)


def test_an_event_line_never_exceeds_its_width():
    event = LeftBehind(witness=Witness.RUNNER, kind="process", what="sleep " * 40)

    for width in range(10, 120):
        assert len(story.event_line(event, width)) <= width
        assert len(story.event_line(event, width, unicode=False)) <= width


def test_a_ledger_is_shown_fact_by_fact_up_to_a_bound():
    ledger = Ledger([given.offered(), given.ended(), *given.ran(x="evid")])

    offer, end, start, more = story.render_ledger(ledger, width=120, limit_events=3).split("\n")[1:]

    assert offer.startswith("  #1  endpoint    CallOffered   call=s1.c1 tool=record stream=s1 arguments=")
    assert offer.endswith("""arguments='{"x": "evidence-7f3a"}'""")
    assert end.startswith("  #2  endpoint    StreamEnded   stream=s1 complete=False sent=412 begun=s1.c1 ")
    assert start.endswith("""call=s1.c1 tool=record stream=s1 arguments={"x": "evid"} invocation=i1""")
    assert more == "  … 1 more"
    assert story.render_ledger(Ledger()) == "ledger events=0"


def test_rules_that_are_invalid_for_one_reason_share_a_story():
    ledger = given.control_failed()
    facts = "tool=record observed=0 expected=1"
    control = as_check(given.verdict(ledger, "control", facts, RunEnded, outcome=Outcome.INVALID))
    others = [
        as_check(given.verdict(ledger, id, f"control failed: {facts}", outcome=Outcome.INVALID))
        for id in ("stall-ends", RULE)
    ]
    broken = as_check(given.verdict(ledger, RULE, "tool=record ran", RunEnded))

    found = story.grouped([control, broken, *others])

    assert found == [(control, ("stall-ends", RULE)), (broken, ())]


def test_the_rules_that_share_a_story_are_named_in_it():
    ledger = given.control_failed()
    check = as_check(given.verdict(ledger, "control", "requests=0", RunEnded, outcome=Outcome.INVALID))
    text = story.render(
        agent="langchain", scenario="control", dialect="anthropic", mode="block", check=check, ledger=ledger,
        also=("stall-ends", RULE),
    )  # fmt: skip

    assert f"and so     stall-ends, {RULE}" in text.splitlines()
