"""The Python of the pages is as the package wants it: ruff finds nothing, and extensions may be copied."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from fences import ROOT, Fence, fences, name_of, pages
from test_architecture import allowed_for, imports_of, is_allowed

PYTHON = [page for page in pages() if any(fence.language == "python" for fence in fences(page))]
EXTENSIONS = {
    "no_request_after_bad_key.py": "invariants/stream/",
    "chat_repeats.py": "scenarios/",
    "gateway_line.py": "faults/",
    "line_chat.py": "dialects/",
    "asks_again_with_a_bad_key.py": "reference/mutants/",
}
"""The files of pages that a contributor copies into the package, and where they go."""


def files() -> dict[str, Fence]:
    """Every Python file that a page writes, as it is left, by its name."""
    written = [
        fence for page in pages() for fence in fences(page) if fence.options.get("file", "").endswith(".py")
    ]
    return {fence.options["file"]: fence for fence in written}


@pytest.mark.parametrize("page", PYTHON, ids=name_of)
def test_ruff_finds_nothing_in_the_examples(page: Path, tmp_path: Path) -> None:
    for n, fence in enumerate(fences(page)):
        if fence.language == "python":
            name = fence.options.get("file", f"line_{n}.py")
            (tmp_path / name).write_text(fence.text, encoding="utf-8")
    command = [
        "check",
        "--config",
        str(ROOT / "pyproject.toml"),
        "--output-format",
        "concise",
        "--no-cache",
        ".",
    ]

    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_imports_only_what_its_folder_may(name: str) -> None:
    place = EXTENSIONS[name] + name

    found = [
        one
        for one in imports_of(ast.parse(files()[name].text))
        if not is_allowed(one, allowed_for(place), place)
    ]

    assert [f"{files()[name]} imports {one.name}" for one in found] == []


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_begins_as_every_module_does(name: str) -> None:
    tree = ast.parse(files()[name].text)

    assert (ast.get_docstring(tree) or "").partition("\n")[0].endswith(".")
    assert ast.unparse(tree.body[1]) == "from __future__ import annotations"
