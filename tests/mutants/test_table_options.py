"""The command that makes the table says what it does not do."""

from __future__ import annotations

import pytest

from mutants import table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--write", "no_deadline"], "--write takes no names: the page is about all mutants"),
        (["no_dedline"], "unknown agent 'no_dedline'; did you mean 'no_deadline'?"),
        (["--wirte"], "unknown option '--wirte'; there is --write"),
    ],
)
def test_wrong_arguments_run_nothing(arguments, message, capsys):
    assert table.main(arguments) == 2
    assert capsys.readouterr().err.strip() == message
