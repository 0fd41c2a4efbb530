"""A preview shows the structure of what it stands for, with the line numbers that `read_reference` takes."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.memory import FileMemory, Offload, Reference
from contextkit.memory.offload import offload
from contextkit.memory.preview import kind_of, preview, title_of
from contextkit.memory.reference import call_text, line_starts, lines_of
from tests.memory.test_offload import KINDS

ROOM = 1_600
FILLER = "\n".join(["Words of no importance stand here, and many of them."] * 60)
MARKDOWN = "\n\n".join(f"{'#' * (1 + number % 3)} Part {number}\n\n{FILLER}" for number in range(9))
PYTHON = "import os\n\n" + "\n\n".join(
    f"class Thing{number}:\n    def run{number}(self, value: int) -> str:\n" + "        value = value + 1\n" * 40
    for number in range(6)
)
JAVASCRIPT = "import fs from 'fs';\n" + "\n".join(
    f"export async function load{number}(path) {{\n" + "  const text = path;\n" * 40 + "}" for number in range(6)
)
GO = 'package main\n\nimport "fmt"\n' + "\n".join(
    f"func (s *Server) Handle{number}(w int) error {{\n" + "\tfmt.Println(w)\n" * 40 + "}" for number in range(6)
)
NUMBERED = "\n".join(f"{number:>6}→{line}" for number, line in enumerate(PYTHON.splitlines(), 1))
DIFF = "\n".join(f"diff --git a/src/m{number}.py b/src/m{number}.py\n{FILLER}" for number in range(5))
GREP = "\n".join(f"src/m{number // 30}.py:{number}: value = {number}" for number in range(120))
PAGE = (
    "<!doctype html>\n<html><head><title>Prices of\ncards</title></head><body>\n"
    + "".join(f"<h2>Card <b>{number}</b></h2>\n<p>\n{FILLER}\n</p>\n" for number in range(8))
    + "</body></html>"
)
OBJECT = json.dumps({"status": "ok", "rows": [{"id": number} for number in range(900)], "total": 900}, indent=1)
STRUCTURES: dict[str, tuple[str, str, list[str]]] = {
    "markdown": (MARKDOWN, "markdown", ["# Part 0", "## Part 1", "### Part 8"]),
    "python": (PYTHON, "code", ["class Thing0:", "class Thing5:", "    def run0(self, value: int) -> str:"]),
    "javascript": (JAVASCRIPT, "code", ["export async function load0(path) {", "export async function load5(path) {"]),
    "go": (GO, "code", ["func (s *Server) Handle0(w int) error {", "func (s *Server) Handle5(w int) error {"]),
    "numbered": (NUMBERED, "code", ["     3→class Thing0:"]),
    "diff": (DIFF, "text", ["diff --git a/src/m4.py b/src/m4.py"]),
    "grep": (GREP, "text", ["src/m3.py:90: value = 90"]),
    "html": (PAGE, "html", ["<h2>Card <b>0</b></h2>", "<h2>Card <b>7</b></h2>"]),
    "json": (OBJECT, "json", [' "rows": [', ' "total": 900']),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_structure_is_shown_by_line(name: str) -> None:
    text, kind, lines = STRUCTURES[name]
    content = text.encode()
    assert kind_of(content) == kind
    shown = preview(content, kind, ROOM)
    numbers = {int(found) for found in re.findall(r"^(\d+): ", shown, re.MULTILINE)}
    for line in lines:
        assert lines_of(text).index(line) + 1 in numbers, shown
    assert len(shown) <= ROOM and preview(content, kind, ROOM) == shown


def test_a_table_says_how_large_it_is_and_what_was_left_out() -> None:
    table = "name,price,shop\n" + "\n".join(f"a{number},{number},b" for number in range(5_000))
    shown = preview(table.encode(), "csv", ROOM)
    assert shown.startswith("[5,000 rows, 3 columns]\nname,price,shop\na0,0,b\n") and len(shown) <= ROOM
    found = re.search(r"\[… lines (\d+) to (\d+) …\]", shown)
    assert found is not None
    before, after = shown.split(found[0])
    lines = lines_of(table)
    assert before.splitlines()[-1] == lines[int(found[1]) - 2] and after.splitlines()[1] == lines[int(found[2])]


def test_lines_of_json_are_counted() -> None:
    rows = "\n".join(json.dumps({"id": number, "word": "x" * 50}) for number in range(400))
    shown = preview(rows.encode(), "json", ROOM)
    assert shown.startswith("400 lines of JSON, the first:\n  id: 0\n") and "id: 399" in shown


def test_of_too_many_headings_the_upper_ones_are_shown_and_the_rest_evenly() -> None:
    text = "\n".join(
        f"{'#' if number % 50 == 0 else '##'} Heading {number}\n\n" + "words\n" * 3 for number in range(500)
    )
    shown = preview(text.encode(), "markdown", ROOM)
    listed = [int(found) for found in re.findall(r"^\d+: +Heading (\d+)", shown, re.MULTILINE)]
    assert {number for number in listed if number % 50 == 0} == set(range(0, 500, 50))
    assert len(listed) > 15 and max(listed) > 450 and listed == sorted(listed) and "more …]" in shown


@given(st.text(max_size=3_000) | st.binary(max_size=2_000), st.sampled_from([*KINDS, "markdown", "code", "binary"]))
def test_a_preview_keeps_to_its_room_whatever_it_is_of(content: str | bytes, kind: str) -> None:
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    kind_of(data)
    assert len(preview(data, kind, 300)) <= 300
    title = title_of(data, kind)
    assert len(title) <= 80 and (title.isprintable() or not title)


@given(st.text(st.sampled_from("ab\n\r\x0b\x85 "), max_size=200))
def test_lines_begin_where_they_are_counted(text: str) -> None:
    starts = line_starts(text)
    assert [text[start : start + len(line)] for start, line in zip(starts, lines_of(text), strict=True)] == lines_of(
        text
    )


@pytest.mark.parametrize(
    ("text", "source", "title"),
    [
        (PAGE, None, "Prices of cards"),
        (MARKDOWN, "https://example.com/a.md", "Part 0"),
        ('{"rows": [], "title": "Cards"}', None, "Cards"),
        ("one\ntwo", "/home/me/notes.txt", "notes.txt"),
        ("\n\n  First words \x1b[1m here\nmore", None, "First words [1m here"),
        ("x" * 200, None, "x" * 79 + "…"),
    ],
)
def test_a_title_is_the_first_of_what_names_a_content(text: str, source: str | None, title: str) -> None:
    assert title_of(text.encode(), kind_of(text.encode()), source) == title


def test_a_reference_says_where_it_comes_from_and_earlier_ones_still_read() -> None:
    files = FileMemory("memory://titles")
    [reference] = offload(
        [{"type": "text", "text": PAGE}],
        files,
        Offload(100, 20),
        tool="fetch",
        call=call_text({"url": "https://example.com/cards"}),
    ).references
    assert Reference.of(reference.body) == reference
    assert reference.line == (
        f'{reference.id}: fetch(url="https://example.com/cards"), "Prices of cards", html, {len(PAGE):,} bytes'
    )
    earlier = {name: value for name, value in reference.body.items() if name not in ("tool", "call", "title")}
    assert Reference.of(earlier).line == f"{reference.id}: html, {len(PAGE):,} bytes"
    assert Reference.of({**reference.body, "later": 1}) == reference


# Recorded results
# ----------------------------------------------------------------------------------------------------------------------


def recorded_results(shared: Path) -> Iterator[str]:
    """Large results of tools in recorded sessions."""
    for path in sorted((shared / "data" / "agent-logs" / "claude-code").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                message = json.loads(line).get("message")
                parts = message.get("content") if isinstance(message, dict) else None
                for part in parts if isinstance(parts, list) else ():
                    if isinstance(part, dict) and part.get("type") == "tool_result":
                        yield text_of(part.get("content"))


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if isinstance(part, dict))


def test_recorded_results_have_an_outline_whose_lines_are_there(shared: Path) -> None:
    results = list(islice((text for text in recorded_results(shared) if len(text) > 4_000), 150))
    n_outlined = 0
    for text in results:
        content = text.encode("utf-8", "replace")
        kind = kind_of(content)
        shown = preview(content, kind, ROOM)
        assert len(shown) <= ROOM
        head, _, rest = shown.partition("Outline, by line:\n")
        if head or not rest:
            continue
        n_outlined += 1
        lines = lines_of(text)
        for line in rest.splitlines():
            entry = re.match(r"(\d+): +(\S+)", line)
            if entry is None:
                break
            assert entry[2].rstrip("…") in lines[int(entry[1]) - 1]
    assert n_outlined > len(results) // 2
