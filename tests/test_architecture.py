"""Who may import what, how long things may be, and what every module carries."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_agentguard"
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = [str(path.relative_to(PACKAGE)) for path in MODULES]

PUBLIC = frozenset({"", "events", "reading"})  # "": names of the package itself
OURS = frozenset({path.stem if path.suffix else path.name for path in PACKAGE.iterdir()}) | {""}
IMPURE = frozenset(
    """
    asyncio concurrent ctypes datetime fcntl ftplib getpass glob http importlib io mmap multiprocessing os
    pathlib platform pty queue random resource sched secrets select selectors shutil signal smtplib socket
    socketserver sqlite3 ssl subprocess tempfile termios time urllib uuid webbrowser
    """.split()  # noqa: SIM905 - a list literal of forty names is no clearer
)
"""Modules of the standard library that bring I/O, a clock or chance."""


@dataclass(frozen=True)
class Allowed:
    """What one part may import at the top, and what more inside functions."""

    ours: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    ours_inside: frozenset[str] = frozenset()
    outside_inside: frozenset[str] | None = frozenset()  # None: anything
    without: frozenset[str] = frozenset()  # of the standard library


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CORE = frozenset({"_core"})
EXTENSION = Allowed(ours=PUBLIC)
ENTRY = Allowed(outside=names("pytest"), ours_inside=OURS, outside_inside=names("pytest"))
TABLE = {
    "_core": Allowed(ours=CORE, without=IMPURE),
    "events": Allowed(ours=CORE),
    "reading": Allowed(ours=CORE),
    "catalogue": Allowed(ours=CORE),
    "testing": Allowed(ours=CORE),
    "__init__": Allowed(ours=CORE),
    "invariants": EXTENSION,
    "faults": EXTENSION,
    "dialects": EXTENSION,
    "scenarios": Allowed(ours=PUBLIC | {"faults"}),
    "adapters": Allowed(ours=PUBLIC, ours_inside=frozenset({"reference"}), outside_inside=None),
    "reports": Allowed(ours=CORE | {"reports"}),
    "_witnesses": Allowed(ours=CORE | {"_witnesses"}, outside=names("h11 psutil")),
    "_witnesses/gate.py": Allowed(  # its signals can be awaited from trio
        ours=CORE | {"_witnesses"}, outside=names("h11 psutil"), outside_inside=names("trio")
    ),
    "_witnesses/tls.py": Allowed(ours=CORE, outside_inside=names("trustme")),  # an extra
    "_witnesses/stub_main.py": Allowed(),
    "_runner": Allowed(
        ours=CORE | names("_witnesses _runner"), outside=names("psutil"), outside_inside=names("trio")
    ),
    "_runner/load.py": Allowed(  # finds a shipped adapter by its name
        ours=CORE | names("_witnesses _runner"), ours_inside=names("catalogue")
    ),
    "reference": Allowed(ours=names("reference"), outside=names("httpx anyio trio jsonschema")),
    "_plugin": Allowed(
        ours=OURS, outside=names("pytest"), ours_inside=OURS, outside_inside=names("pytest trio")
    ),
    "plugin": ENTRY,
    "hookspecs": ENTRY,
}
"""The table of the style guide; a part is a folder, a module, or one file of a folder."""


@dataclass(frozen=True)
class Imported:
    """One import: the name in full, where it stands, and whether it runs when the module is imported."""

    name: str
    line: int
    at_top: bool

    @property
    def outside(self) -> str:
        """The top-level package."""
        return self.name.partition(".")[0]

    @property
    def part(self) -> str:
        """The part of ours that is imported; empty for a name of the package itself."""
        second = self.name.split(".")[1] if "." in self.name else ""
        return second if second in OURS else ""


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports_of(tree: ast.AST, at_top: bool = True) -> Iterator[Imported]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Imported(alias.name, node.lineno, at_top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")  # a relative import belongs to no part
            yield from (Imported(f"{origin}.{alias.name}", node.lineno, at_top) for alias in node.names)
        else:
            yield from imports_of(node, at_top and not is_late(node))


def is_late(node: ast.AST) -> bool:
    """Whether what is below runs later than the import of the module, or never."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def allowed_for(name: str) -> Allowed:
    part = name.split("/")[0].removesuffix(".py")
    assert name in TABLE or part in TABLE, f"{name} belongs to no part of the table"
    return TABLE.get(name, TABLE.get(part, Allowed()))


def is_allowed(one: Imported, allowed: Allowed, name: str) -> bool:
    if one.outside == "pytest_agentguard":
        ours = allowed.ours if one.at_top else allowed.ours | allowed.ours_inside
        folder = name.rpartition("/")[0].replace("/", ".")
        beside = bool(folder) and one.name.startswith(f"pytest_agentguard.{folder}._")
        return one.part in ours or beside
    if one.outside in sys.stdlib_module_names:
        return one.outside not in allowed.without
    if one.outside in allowed.outside:
        return True
    return not one.at_top and (allowed.outside_inside is None or one.outside in allowed.outside_inside)


@pytest.mark.parametrize("name", NAMES)
def test_a_part_imports_only_what_it_may(name):
    allowed = allowed_for(name)

    wrong = [
        f"{name}:{one.line} imports {one.name} {'at the top' if one.at_top else 'inside'}"
        for one in imports_of(parsed(PACKAGE / name))
        if not is_allowed(one, allowed, name)
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("_core/x.py", "import os"),
        ("_core/x.py", "def f():\n    from time import monotonic"),
        ("_core/x.py", "from pytest_agentguard._witnesses import endpoint"),
        ("catalogue.py", "import pytest"),
        ("invariants/stream/x.py", "from pytest_agentguard._core.verdict import judge"),
        ("invariants/stream/x.py", "from pytest_agentguard import catalogue"),
        ("faults/x.py", "from pytest_agentguard.faults.html_page import FAULT"),
        ("scenarios/x.py", "from pytest_agentguard.invariants.stream.stall_ends import INVARIANT"),
        ("adapters/x.py", "import openai"),
        ("adapters/x.py", "from pytest_agentguard.reference import agent"),
        ("reports/x.py", "import pytest"),
        ("reports/x.py", "def f():\n    from pytest_agentguard import catalogue"),
        ("_witnesses/stub_main.py", "import h11"),
        ("_runner/x.py", "import trio"),
        ("reference/x.py", "from pytest_agentguard import Job"),
        ("reference/x.py", "def f():\n    from pytest_agentguard._core import limits"),
        ("plugin.py", "from pytest_agentguard import catalogue"),
        ("plugin.py", "import httpx"),
        ("reports/x.py", "from .text import safe"),
        ("plugin.py", "try:\n    import trio\nexcept ImportError:\n    pass"),
    ],
)
def test_the_table_refuses(name, source):
    assert not all(is_allowed(one, allowed_for(name), name) for one in imports_of(ast.parse(source)))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("_core/x.py", "import threading, json"),
        ("invariants/stream/x.py", "from pytest_agentguard.events import StreamEnded"),
        ("invariants/stream/x.py", "from pytest_agentguard import Ledger, reading"),
        ("scenarios/x.py", "from pytest_agentguard.scenarios._replies import cut"),
        ("scenarios/x.py", "from pytest_agentguard.faults.html_page import FAULT"),
        (
            "adapters/x.py",
            "def run(job):\n    import openai\n    from pytest_agentguard.reference import agent",
        ),
        ("plugin.py", "import pytest\ndef f():\n    from pytest_agentguard._witnesses import endpoint"),
        ("plugin.py", "if TYPE_CHECKING:\n    from pytest_agentguard._core.ledger import Ledger"),
        ("_runner/x.py", "def f():\n    import trio"),
    ],
)
def test_the_table_permits(name, source):
    assert all(is_allowed(one, allowed_for(name), name) for one in imports_of(ast.parse(source)))


def test_nobody_imports_the_private_pytest():
    everywhere = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]

    wrong = [
        f"{path.relative_to(ROOT)}:{one.line}"
        for path in everywhere
        for one in imports_of(parsed(path))
        if one.outside == "_pytest"
    ]

    assert wrong == []


def test_importing_the_plugin_imports_no_network_and_no_async_library():
    import subprocess

    code = "import sys, pytest_agentguard.plugin; print(*sys.modules)"
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert {"httpx", "trio", "psutil", "anyio", "h11", "jsonschema"} & set(made.stdout.split()) == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_at_most_400_lines_and_a_function_at_most_40(name):
    source = (PACKAGE / name).read_text(encoding="utf-8")

    long = [
        f"{name}:{node.lineno} {node.name} has {size} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > 40
    ]

    assert long == []
    assert len(source.splitlines()) <= 400


@pytest.mark.parametrize("name", NAMES)
def test_a_module_says_what_it_is_and_postpones_annotations(name):
    tree = parsed(PACKAGE / name)
    docstring = ast.get_docstring(tree)

    assert docstring, "no docstring"
    assert docstring.splitlines()[0].strip()
    code = tree.body[1:]
    assert not code or ast.unparse(code[0]) == "from __future__ import annotations"


@pytest.mark.parametrize("name", [n for n in NAMES if "/mutants/" not in n])  # some mutants lack just this
def test_a_module_keeps_no_registry_and_no_global_state(name):
    tree = parsed(PACKAGE / name)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    empty = {"[]", "{}", "list()", "dict()", "set()", "defaultdict(list)", "OrderedDict()"}

    registries = [f"{name}:{node.lineno}" for node in assigned if ast.unparse(node.value) in empty]
    rebound = [f"{name}:{node.lineno}" for node in ast.walk(tree) if isinstance(node, ast.Global)]

    assert registries + rebound == []


@pytest.mark.parametrize("name", NAMES)
def test_a_class_is_named_after_what_it_is(name):
    classes = [node.name for node in ast.walk(parsed(PACKAGE / name)) if isinstance(node, ast.ClassDef)]

    wrong = [c for c in classes if re.search(r"^_?Test|(Manager|Helper|Utils|Util|Base)$", c)]

    assert wrong == []


def test_no_file_names_a_place_on_somebody_s_machine():
    places = re.compile(r"/(?:home|Users|root|work)/[a-z]")
    suffixes = {".py", ".md", ".toml", ".json", ".yml", ".yaml", ".cfg", ".txt", ".sh"}
    folders = [PACKAGE, ROOT / "tests", ROOT / "docs"]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in suffixes]
    files += [path for path in sorted(ROOT.iterdir()) if path.suffix in suffixes]

    found = [
        f"{path.relative_to(ROOT)}:{n} {line.strip()[:60]}"
        for path in files
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if places.search(line)
    ]

    assert found == []


def test_no_two_test_modules_share_a_name_with_each_other_or_with_an_example():
    """Pytest imports them by their names, and the examples of the documentation run in the same process."""
    tests = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    pages = [
        path.read_text(encoding="utf-8") for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    ]
    examples = {
        Path(name).name for page in pages for name in re.findall(r"example: file=(\S*test_\w+\.py)", page)
    }

    assert sorted(name for name in set(tests) if tests.count(name) > 1 or name in examples) == []
