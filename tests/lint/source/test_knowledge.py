"""Checks the files of `contextkit/lint/knowledge`: they load, are documented, and name what the installed SDKs have."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from contextkit.errors import UsageError
from contextkit.lint.source.knowledge import FIELDS, KINDS, ORDER, Knowledge, load

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "contextkit" / "lint" / "source"
FILES = sorted((ROOT / "contextkit" / "lint" / "knowledge").glob("*.toml"))
DOCUMENTED = (ROOT / "docs" / "reference" / "lint-knowledge.md").read_text("utf-8")
Row = dict[str, Any]


def rows(section: str, *files: str) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a table, each with the name of its file."""
    for file in FILES:
        if not files or file.stem in files:
            for row in tomllib.loads(file.read_text("utf-8")).get(section, []):
                yield file.name, row


def documented(table: str) -> dict[str, set[str]]:
    """Return the words in the first column of a table of the page, with those in its last column."""
    part = DOCUMENTED.partition(f"<!-- {table} -->\n")[2].partition("\n\n")[0]
    cells = [line.strip("|").split("|") for line in part.splitlines() if "`" in line]
    return {name: set(re.findall(r"`(\w+)`", last)) for first, *_, last in cells for name in re.findall(r"\w+", first)}


def is_read(section: str) -> bool:
    """Return whether the engine reads a table."""
    return any(f'"{section}"' in file.read_text("utf-8") for file in SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_file_loads_alone(file: Path) -> None:
    knowledge, table = Knowledge(), tomllib.loads(file.read_text("utf-8"))
    knowledge.read(table, file.name)
    own = {"source", "sorts", "passes", "request"}
    kept = {name: len(found) for name, found in table.items() if name not in own}
    assert {name: len(found) for name, found in knowledge.sections.items()} == kept


def test_what_is_loaded_is_found() -> None:
    knowledge = load()
    assert {one.kind for one in knowledge.sources.find("datetime.datetime.now")} == {"clock"}
    (row, *_) = knowledge.requests.find("anthropic.Anthropic().messages.create")
    assert row.arguments["system"] == "system"
    assert (
        knowledge.sorts.find("sorted") and knowledge.passes.find("json.dumps") and knowledge.passes.find("text.strip")
    )


def test_each_table_is_documented_and_read() -> None:
    assert documented("tables").keys() == FIELDS.keys()
    assert {section for section in FIELDS if not is_read(section)} == set()


@pytest.mark.parametrize("section", documented("tables"))
def test_the_fields_of_a_table_are_documented(section: str) -> None:
    given = {field for _, row in rows(section) for field in row}
    assert given and given <= FIELDS[section] == documented("tables")[section]


def test_kinds_are_documented() -> None:
    assert documented("kinds").keys() == KINDS == {row["kind"] for _, row in rows("source")}
    assert ORDER <= KINDS


@pytest.mark.parametrize("section", ["request", "request_dict", "decorator"])
def test_sinks_are_documented(section: str) -> None:
    given = {
        sink for _, row in rows(section) for sink in [*row.get("arguments", {}).values(), row.get("sink", "system")]
    }
    assert given <= documented("sinks").keys()


def test_no_expression_matches_everything() -> None:
    expressions = [row[key] for name in FIELDS for _, row in rows(name) for key in ("pattern", "text") if key in row]
    assert len(expressions) > 5
    assert [one for one in expressions if re.search(one, "") or re.search(one, "x")] == []


def test_no_pattern_contradicts_itself() -> None:
    by_call: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    for file, row in rows("request"):
        for call in row["calls"]:
            by_call[call].append((file, row))
    contradictions = [
        (call, one, other, key)
        for call, those in by_call.items()
        for (one, row), (other, another) in combinations(those, 2)
        if not (row.get("packages") and another.get("packages")) or {*row["packages"]} & {*another["packages"]}
        for key in row["arguments"].keys() & another["arguments"].keys()
        if row["arguments"][key] != another["arguments"][key]
    ]
    assert not contradictions


def test_no_call_is_of_two_kinds() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for _, row in rows("source"):
        if not row.get("text"):
            for call in row.get("calls", ()):
                kinds[call].add(row["kind"])
    assert not {call: found for call, found in kinds.items() if len(found) > 1}


# A project's own
# ----------------------------------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_load(tmp_path: Path) -> None:
    examples = [one for one in re.findall(r"```toml\n(.*?)```", DOCUMENTED, re.DOTALL) if "[[" in one]
    assert examples
    for at, one in enumerate(examples):
        (tmp_path / f"{at}.toml").write_text(one, "utf-8")
        load((str(tmp_path / f"{at}.toml"),))


WRONG = {
    "no kind": '[[source]]\ncalls = ["a.b"]\n',
    "one table": '[source]\nkind = "clock"\n',
    "an unknown kind": '[[source]]\nkind = "klock"\ncalls = ["a"]\n',
    "an unknown table": "[[nothing]]\na = 1\n",
    "an unknown field": '[[source]]\nkind = "clock"\ncall = ["a"]\n',
    "not TOML": "[[request]\n",
    "no arguments": '[[request]]\ncalls = ["a"]\n',
    "an unknown sink": '[[request]]\ncalls = ["a"]\narguments = {b = "sistem"}\n',
    "an unknown field of a name": '[[once]]\npatern = "x"\n',
    "no list of calls": '[[source]]\nkind = "clock"\ncalls = "mine.now"\n',
    "no expression": '[[once]]\npattern = "("\n',
    "no table": "source = 3\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_a_file_names_it(name: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(WRONG[name], "utf-8")
    with pytest.raises(UsageError, match=r"own\.toml"):
        load((str(file),)).matches("once", "x")
