"""The house as `docs/explanation/architecture.md` draws it: who may import whom, and what never stands in the code.

Read from the syntax tree of every file, so an import for types only, or inside a function, counts like any other.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "contextkit"
FILES = sorted(PACKAGE.rglob("*.py"))

FLOORS = {
    0: {"errors"},
    1: {"facts"},
    2: {
        "canonical",
        "content_encoding",
        "installation",
        "kv_size",
        "private_files",
        "pyproject",
        "redact",
        "sequence_view",
        "terminal",
    },
    3: {"models"},
    4: {"cache"},
    5: {"economics", "log", "prices", "tools", "transformer"},
    6: {"memory", "prompt"},
    7: {"providers"},
    8: {"ledger"},
    9: {"engines"},
    10: {"whatif"},
    11: {"context", "importers", "lint", "report"},
    12: {"watcher"},
    13: {"server"},
    14: {"cache_guard", "proxy"},
    15: {"bridges", "cli", "pytest_plugin"},
}
FLOOR_OF = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
ROOF = {"__init__", "__main__"}
"""The package's own door: imports anything, and no room imports it."""

NUMPY_IN = {"transformer", "engines/reuse_distance.py"}
TOP_LEVEL = {"contextkit", "examples", "tests", "docs", "pyproject.toml", "README.md"}
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "base", "core", "misc", "manager", "managers"}
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
MACHINE_PATH = re.compile(
    r"(?<![\w.~*/-])(?:/(?:home|Users|root|work|mnt|tmp|private|opt)/[\w.-]|[A-Za-z]:\\\\?(?:Users|Temp))"
)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|raise NotImplementedError)\b")


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def dotted(path: Path) -> str:
    """`contextkit/log/entry.py` -> `contextkit.log.entry`; a folder's `__init__.py` -> the folder."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {dotted(path): path for path in FILES}


def room(module: str) -> str:
    """The first name below the package; the package itself and `__main__` are the roof."""
    return [*module.split("."), "__init__"][1]


# Reading imports
# ----------------------------------------------------------------------------------------------------------


def _targets_of_import(node: ast.Import, path: Path) -> Iterator[str]:
    return (alias.name for alias in node.names)


def _targets_of_import_from(node: ast.ImportFrom, path: Path) -> Iterator[str]:
    package = (
        (*path.relative_to(ROOT).parent.parts, "")[: len(path.relative_to(ROOT).parts) - node.level]
        if node.level
        else ()
    )
    source = ".".join(filter(None, (*package, node.module or "")))
    candidates = (f"{source}.{alias.name}" for alias in node.names)
    return (candidate if candidate in MODULES else source for candidate in candidates)


def _targets_of_call(node: ast.Call, path: Path) -> Iterator[str]:
    """`import_module("contextkit.log")` imports as well."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    texts = (argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant))
    return (str(text) for text in texts if name in {"import_module", "__import__"})


_READERS: dict[type[ast.AST], Callable[..., Iterator[str]]] = {
    ast.Import: _targets_of_import,
    ast.ImportFrom: _targets_of_import_from,
    ast.Call: _targets_of_call,
}


def _statements(module: ast.Module) -> Iterator[ast.AST]:
    """Each statement at any depth; a tenth of the nodes."""
    blocks: list[ast.AST] = [module]
    while blocks:
        block = blocks.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(inside := getattr(block, name, None), list):
                yield from inside
                blocks += inside


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Each imported module and the line that imports it."""
    has_calls = any(name in path.read_text(encoding="utf-8") for name in ("import_module", "__import__"))
    walked = ast.walk(tree(path)) if has_calls else _statements(tree(path))
    nodes = (node for node in walked if type(node) in _READERS)
    return tuple((target, node.lineno) for node in nodes for target in _READERS[type(node)](node, path))


def our_imports() -> Iterator[tuple[Path, int, str, str]]:
    """File, line, the importing module, the imported module of the package."""
    for path in FILES:
        for target, line in imports(path):
            if target.split(".")[0] == "contextkit":
                yield path, line, dotted(path), target


# The floors
# ---------------------------------------------------------------------------------------------------------------


def test_every_file_stands_on_a_floor() -> None:
    assert sorted({room(module) for module in MODULES} - FLOOR_OF.keys() - ROOF) == []


def test_a_room_imports_only_rooms_on_lower_floors() -> None:
    found = [
        f"{place(path)}:{line}: {room(importer)} (floor {FLOOR_OF.get(room(importer))}) imports {target}"
        for path, line, importer, target in our_imports()
        if room(importer) not in ROOF | {room(target)}
        and FLOOR_OF.get(room(importer), 0) <= FLOOR_OF.get(room(target), 99)
    ]
    assert not found, "\n".join(found)


def test_every_import_from_the_package_names_a_module_of_it() -> None:
    found = [f"{place(path)}:{line}: {target}" for path, line, _, target in our_imports() if target not in MODULES]
    assert not found, "\n".join(found)


def test_no_files_import_each_other_in_a_circle() -> None:
    edges: dict[str, set[str]] = {module: set() for module in MODULES}
    for _, _, importer, target in our_imports():
        edges[importer].add(target)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_numpy_stays_in_the_reference_model() -> None:
    found = [
        f"{place(path)}:{line}"
        for path in FILES
        for target, line in imports(path)
        if target.split(".")[0] == "numpy" and not any(path.is_relative_to(PACKAGE / allowed) for allowed in NUMPY_IN)
    ]
    assert not found, "\n".join(found)


def test_the_reader_of_imports_sees_every_way_to_import() -> None:
    source = """
import contextkit.log.entry
from contextkit import errors, Context
from contextkit.log.entry import Entry
from . import usage
from .prompt import Prompt
from ..errors import LogCorrupt
if TYPE_CHECKING:
    import contextkit.models as models
def late():
    from contextkit.canonical import parse
    importlib.import_module("contextkit.prices")
"""
    path = PACKAGE / "cache" / "imagined.py"
    nodes = [node for node in ast.walk(ast.parse(source)) if type(node) in _READERS]
    seen = {target for node in nodes for target in _READERS[type(node)](node, path)}
    assert seen == {
        "contextkit",
        *(
            f"contextkit.{name}"
            for name in ["log.entry", "errors", "cache.usage", "cache.prompt", "models", "canonical", "prices"]
        ),
    }


# Names
# ------------------------------------------------------------------------------------------------------------------


def test_every_module_is_named_for_what_it_is() -> None:
    names = {place(path): path.relative_to(PACKAGE).with_suffix("").parts for path in FILES}
    vague = {
        name
        for name, parts in names.items()
        if VAGUE_NAMES & set(chain.from_iterable(part.split("_") for part in parts))
    }
    assert vague == set()


def test_every_module_says_what_it_is() -> None:
    empty = [place(path) for path in FILES if tree(path).body and not ast.get_docstring(tree(path))]
    assert empty == []


# What never stands in the code
# --------------------------------------------------------------------------------------------


def test_nothing_is_unpickled() -> None:
    found = [
        f"{place(path)}:{line}"
        for path in FILES
        for target, line in imports(path)
        if target.split(".")[0] in UNSAFE_MODULES
    ]
    assert not found, "\n".join(found)


@cache
def kept_files() -> tuple[Path, ...]:
    """What a commit made now would hold."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(path for path in (ROOT / name for name in sorted(filter(None, listed.split("\0")))) if path.is_file())


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATH, UNFINISHED], ids=["a path of one machine", "a mark of unfinished work"]
)
def test_no_written_page_holds(pattern: re.Pattern[str]) -> None:
    found = [
        f"{place(path)}:{number}: {line.strip()[:100]}"
        for path in kept_files()
        if path.suffix in {".py", ".md", ".toml"} and path.relative_to(ROOT).parts[0] != "tests"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_the_top_level_is_what_the_plan_says() -> None:
    names = {path.relative_to(ROOT).parts[0] for path in kept_files()}
    assert {name for name in names if not name.startswith(".")} == TOP_LEVEL
