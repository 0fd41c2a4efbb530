"""A ledger whose bytes were changed: never other figures without a word, never an error that names no line."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context
from contextkit.cache.usage import Usage
from contextkit.errors import ContextKitError, LogCorrupt, UnreadableLog
from contextkit.ledger.calls import ModelCall, Outline, encode
from contextkit.ledger.ledger import HEADER, Ledger
from contextkit.ledger.summary import summarise
from tests.cli.conftest import Run, run

__all__ = ["run"]


def reply(number: int, read: int = 0) -> dict[str, Any]:
    usage = {
        "input_tokens": 10 + number,
        "output_tokens": 3,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": 2_000,
    }
    said = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-opus-5", "usage": usage}
    return {**said, "content": [{"type": "text", "text": f"Answer {number}."}], "stop_reason": "end_turn"}


def opened(folder: Path) -> Context:
    return Context.open(
        folder, AnthropicMessages("claude-opus-5", max_tokens=9), system="Be brief. " * 900, clock=lambda: 1790000000.25
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed conversation of four calls."""
    with opened(tmp_path / "run") as context:
        for number in range(4):
            context.user(f"Question {number}?")
            context.receive(reply(number, 2_000 * number), context.request())
    return tmp_path / "run"


def figures(ledger: Ledger) -> list[Any]:
    return [*ledger.calls, *ledger.remarks]


def test_a_byte_that_is_flipped_is_found(folder: Path, request: pytest.FixtureRequest) -> None:
    """Bytes of the header, the first row and the last row, each with `--full`, with several values: an error that names
    the line, or the same rows."""
    stride = 1 if request.config.getoption("--full") else 7
    path = folder / "ledger.jsonl"
    whole, before = path.read_bytes(), figures(Ledger.read(path))
    lines = whole.splitlines(keepends=True)
    starts = [0, len(lines[0]), len(whole) - len(lines[-1])]
    broken = folder.with_name("broken.jsonl")
    n_found = n_refused = 0
    for start, line in zip(starts, (lines[0], lines[1], lines[-1]), strict=True):
        number = whole[:start].count(b"\n") + 1
        for place in range(start, start + len(line), stride):
            for mask in (0x01, 0x80, whole[place] ^ ord("\n"), whole[place]):
                if not mask:
                    continue
                broken.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
                try:
                    found = Ledger.read(broken)
                except (LogCorrupt, UnreadableLog) as error:
                    n_found += bool(re.search(rf"broken\.jsonl line {number}\b", str(error)))
                    n_refused += 1
                else:
                    assert figures(found) == before, (place - start, mask)
    assert n_found == n_refused > 2_500 // stride


@pytest.mark.parametrize("row", [0, 3])
def test_one_changed_digit_stops_the_conversation_and_not_the_report(folder: Path, row: int, run: Run) -> None:
    path = folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    place = lines[row + 1].index(b'"output":3')
    lines[row + 1] = lines[row + 1].replace(b'"output":3', b'"output":9', 1)
    assert place > 0
    path.write_bytes(b"".join(lines))
    with pytest.raises(
        LogCorrupt, match=rf"ledger\.jsonl line {row + 2}: its checksum is not that of its content; restore the file"
    ):
        opened(folder)
    ran = run("report", path, "--json")
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    assert said["n_faults"] == 1 and said["faults"][0]["line"] == row + 2
    assert f"ledger.jsonl:{row + 2}: a damaged row is left out" in ran.err
    others = [reply(number)["usage"]["input_tokens"] for number in range(4) if number != row]
    assert said["total"]["usage"]["fresh"] == sum(others)


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["no newline", "newline"])
def test_garbage_behind_the_last_row_is_no_unfinished_row(folder: Path, end: bytes) -> None:
    path = folder / "ledger.jsonl"
    with path.open("ab") as file:
        file.write(b"what is this?" + end)
    with pytest.raises(LogCorrupt, match=r"ledger\.jsonl line 6: not a call"):
        opened(folder)
    assert not folder.joinpath("ledger.jsonl.torn").exists()


@pytest.mark.parametrize("tail", [bytes(4_096), b'{"id":"msg_' + bytes(600) + b'"}\n'], ids=["zeros", "zeros inside"])
def test_blocks_that_never_reached_the_disk_are_an_unfinished_row(folder: Path, tail: bytes) -> None:
    path = folder / "ledger.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with pytest.warns(UserWarning, match="unfinished line"), opened(folder) as context:
        assert len(context.ledger) == 4
    assert path.read_bytes() == whole


def test_rows_of_older_versions_are_read_and_continued(folder: Path) -> None:
    path = folder / "ledger.jsonl"
    before = figures(Ledger.read(path))
    path.write_bytes(
        re.sub(
            rb',"sequence":\d+,"prev":"[0-9a-f]{16}","sum":"[0-9a-f]{16}"\}',
            b"}",
            re.sub(rb',"base":"[0-9a-f]*"', b"", path.read_bytes()),
        )
    )
    with opened(folder) as context:
        assert [row.usage for row in context.ledger] == [row.usage for row in before]
        context.user("More?")
        context.receive(reply(9))
    rows = path.read_bytes().splitlines()
    assert [b'"sum":"' in row for row in rows] == [False] * 5 + [True]
    assert len(list(Ledger.read(path).prompts())) == 5


def test_an_older_version_reads_the_rows(folder: Path) -> None:
    """It looks fields up by name in the row, in the prompt of kind `outline` and in a bill, of which it passes over what
    it does not know, and knows each field of a breakpoint."""
    for line in folder.joinpath("ledger.jsonl").read_bytes().splitlines()[1:]:
        row = json.loads(line)
        fields = [
            "id",
            "session",
            "lane",
            "at",
            "first_byte_at",
            "ended_at",
            "provider",
            "model",
            "prompt",
            "usage",
            "predicted",
            "error",
        ]
        assert list(row) == [*fields, "sequence", "prev", "sum"]
        old = {"fresh", "read", "write_5m", "write_1h", "output", "estimated"}
        assert set(row["usage"]) == {*old, "writes"}
        assert set(row["prompt"]["breakpoints"][0]) == {"segment", "ttl_seconds", "lookback", "is_written"}


def without(folder: Path, row: int, *, is_old: bool) -> Ledger:
    """The ledger read past a damaged row."""
    path = folder / "ledger.jsonl"
    raw = path.read_bytes()
    if is_old:
        raw = re.sub(
            rb',"sequence":\d+,"prev":"[0-9a-f]{16}","sum":"[0-9a-f]{16}"\}',
            b"}",
            re.sub(rb',"base":"[0-9a-f]*"', b"", raw),
        )
    lines = raw.splitlines(keepends=True)
    lines[row + 1] = b'{"id":"' + lines[row + 1]
    path.write_bytes(b"".join(lines))
    found: list[str] = []
    ledger = Ledger.read(path, on_corrupt=lambda error: found.append(str(error)))
    assert len(found) == 1 and f"ledger.jsonl line {row + 2}: " in found[0]
    return ledger


@pytest.mark.parametrize("is_old", [False, True])
def test_prompts_behind_a_damaged_row_are_right_or_unknown(folder: Path, is_old: bool) -> None:
    from contextkit.ledger.prompts import Growing

    whole = Ledger.read(folder / "ledger.jsonl").prompts()
    prompts = {call.id: (prompt.n, list(prompt.digests)) for call, prompt in whole if prompt}
    assert len(prompts) == 4
    growing, known = Growing(), 0
    for call in without(folder, 1, is_old=is_old):
        prompt = growing.prompt(call)
        known += prompt is not None
        assert prompt is None or (prompt.n, list(prompt.digests)) == prompts[call.id]
    assert known == 1  # what came before; the others continue the row that is lost


WRONG = [
    ("namespaces", ["zz", "00", "00"]),
    ("digests", ["nothex"]),
    ("keep", -1),
    ("keep", "2"),
    ("ends_tokens", []),
    ("level_ends", [1]),
    ("breakpoints", [{"segment": 1}]),
    ("kind", "unknown"),
    ("namespaces", None),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_row_without_a_checksum_that_makes_no_sense_is_an_error_of_ours(
    folder: Path, name: str, value: Any, run: Run
) -> None:
    path = folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    row = json.loads(lines[2])
    del row["sum"]
    row["prompt"][name] = value
    lines[2] = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(LogCorrupt, match=r"ledger\.jsonl line 3|'msg_1'"):
        opened(folder)
    assert run("report", path).code == 0


def test_a_damaged_ledger_never_raises_a_bare_error(folder: Path) -> None:
    """Any run of bytes overwritten by any other: an error of ours, or rows."""
    import random

    path, chance = folder / "ledger.jsonl", random.Random(7)
    whole = path.read_bytes()
    for _ in range(300):
        start, n = chance.randrange(len(whole)), chance.choice([1, 1, 2, 9, 200])
        path.write_bytes(whole[:start] + chance.randbytes(n) + whole[start + n :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ledger = Ledger.read(path, on_corrupt=lambda error: None)
                assert all(isinstance(row, ModelCall) and isinstance(row.prompt, Outline | None) for row in ledger)
                summarise(ledger)
                list(Ledger.read(path).prompts())
            except ContextKitError:
                pass


@pytest.mark.parametrize("at", [-1e17])
def test_a_row_with_a_time_that_has_no_date_is_left_out_of_a_report(at: float, tmp_path: Path, run: Run) -> None:
    def call(name: str, when: float) -> ModelCall:
        usage = Usage(10, 0, 9_000, 0, 5)
        return ModelCall(name, "s", "main", when, None, None, "anthropic", "claude-opus-4-5", None, usage, None, None)

    path = tmp_path / "ledger.jsonl"
    lines = [encode(call("a", at)), encode(call("b", 1_780_000_000.0))]
    path.write_bytes(HEADER + b"".join(line + b"\n" for line in lines))
    shown = run("report", str(path), "--json")
    assert (shown.code, json.loads(shown.out)["total"]["calls"]) == (0, 1)
    assert "ledger.jsonl:2: a time before 1970 or after 9999" in shown.err
