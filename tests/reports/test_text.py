"""Text that is safe to print."""

from __future__ import annotations

import shlex
import sys

from pytest_agentguard.reports import text


def test_everything_that_cannot_be_seen_is_escaped():
    for code in (*range(0x3000), *range(0xD7F0, 0x10000), 0x1F389, 0xE0001, sys.maxunicode):
        character = chr(code)
        made = text.safe(character)
        assert made.isprintable()
        assert made == character or not character.isprintable()
    assert text.safe("\x1b[31m\r\n\t\x00\x9b\u202e\ud800\U000e0001") == (
        "\\x1b[31m\\r\\n\\t\\x00\\x9b\\u202e\\ud800\\U000e0001"
    )


def test_without_unicode_nothing_but_ascii_is_left():
    assert text.safe("é … 日 🎉", unicode=False) == "\\xe9 \\u2026 \\u65e5 \\U0001f389"
    assert text.sign("… · × ✓ ✗", unicode=False) == "... - x + x"
    assert text.quoted({"é": "日"}, unicode=False) == '{"\\u00e9": "\\u65e5"}'


def test_columns_count_wide_and_combining_characters():
    assert text.columns("ab") == 2
    assert text.columns("日本") == 4
    assert text.columns("e\u0301") == 1


def test_clipped_and_cut_text_keeps_within_its_width():
    for width in range(40):
        assert text.columns(text.clipped("日本語 abc " * 9, width)) <= width
        assert text.columns(text.clipped("日本語 abc " * 9, width, unicode=False)) <= width
    assert text.clipped("abcdef", 4) == "abc…"
    assert text.clipped("abcdef", 5, unicode=False) == "ab..."
    assert text.cut("a" * 50, 30) == "a" * 13 + "… (50 characters)"
    assert text.cut("abc", 3) == "abc"


def test_values_read_as_people_write_them():
    assert text.shown("plain") == "plain"
    assert text.shown("") == '""'
    assert text.shown("two words") == '"two words"'
    assert text.shown('{"x": 1') == "'{\"x\": 1'"
    assert text.shown('it\'s "both"') == '"it\'s \\"both\\""'
    assert text.shown(True) == "True"
    assert text.shown(0.5) == "0.5"
    assert text.shown(("a", "b c")) == 'a,"b c"'
    assert text.shown({"x": [1, None]}) == '{"x": [1, null]}'
    assert text.shown({"x": {3}}) == '{"x": "{3}"}'
    assert text.call("record", {"x": "evid", "n": 1}) == 'record(x="evid", n=1)'
    assert text.call("record", None) == "record(null)"
    assert text.call("record", {}) == "record()"


def test_a_value_that_contains_itself_is_shown_too():
    loop: dict = {}
    loop["x"] = loop

    assert text.quoted(loop) == "{'x': {...}}"


def test_wrapped_text_loses_no_word():
    words = "facts first, as name=value; 日本語 then evidence " + "x" * 70

    for width in range(12, 90):
        lines = text.wrapped(words, width, "    ")
        assert max(map(text.columns, lines)) <= width
        assert "".join("".join(lines).split()) == "".join(words.split())


def test_a_command_that_is_broken_means_the_same_to_a_shell():
    command = """pytest --agentguard --agentguard-agent 'my agent.toml' -x -k "cut and not 'x y'" tests"""

    for width in range(10, 100):
        lines = text.command(command, width, "     ")
        assert all(line.endswith(" \\") for line in lines[:-1])
        assert shlex.split("\n".join(lines).replace(" \\\n", " ")) == shlex.split(command)
    assert text.command(command, 100, "     ") == [command]
    assert max(map(len, text.command(command, 50, "     "))) + 5 <= 50
