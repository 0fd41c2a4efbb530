"""Every format with every damage: cut, repeated, reordered, mixed, wrong clocks, noise.

Reported, never fatal, never counted twice.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contextkit.importers.registry import FORMATS, records_at
from contextkit.importers.source import Faults
from contextkit.importers.transcript import CUT
from contextkit.ledger.calls import ModelCall, encode
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.log.sqlite import CallLines
from tests.importers.test_pi import HEAD, assistant, result, user
from tests.report.made_up import one_session

FIXTURES = Path(__file__).parent / "fixtures"


def spelled(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def pi_session() -> bytes:
    calls = [{"type": "toolCall", "id": f"c{i}", "name": "ls", "arguments": {"n": i}} for i in range(8)]
    turns = [
        row
        for i, call in enumerate(calls)
        for row in (user(f"go {i}"), assistant(call, stop="toolUse"), result(f"c{i}", "a" * 90))
    ]
    return spelled([HEAD, *turns])


def mooncake() -> bytes:
    rows = [
        {"timestamp": 900 * i, "input_length": 512 * i, "output_length": 5, "hash_ids": list(range(i))}
        for i in range(1, 12)
    ]
    return spelled(rows)


def conversation() -> bytes:
    asked = [
        {"t": 2.0 * i, "type": "n", "model": "m", "in": 64 * i, "out": 5, "hash_ids": [*range(i)], "stop": ""}
        for i in range(1, 9)
    ]
    return spelled(
        [{"id": "trace", "block_size": 64, "hash_id_scope": "local", "requests": asked, "totals": {"sub": {}}}]
    )


def ours(tmp_path: Path) -> bytes:
    path = tmp_path / "made.jsonl"
    with Ledger.open(path) as ledger:
        for record in one_session(9):
            ledger.append(record) if isinstance(record, ModelCall) else ledger.remark(record)
    return re.sub(
        rb',"sequence":\d+,"prev":"[0-9a-f]{16}","sum":"[0-9a-f]{16}"\}', b"}", path.read_bytes()
    )  # what these tests change is to be read


def sqlite(tmp_path: Path) -> bytes:
    file = tmp_path / "made.db"
    file.unlink(missing_ok=True)
    for session in ("a", "b"):
        lines = CallLines(file, session)
        for record in one_session(9):
            lines.append(encode(record))
        lines.close()
    return file.read_bytes()


FILES = {
    f"{folder.name}-{file.stem[:14]}{file.suffix}": file
    for folder in sorted(FIXTURES.iterdir())
    if folder.is_dir()
    for file in sorted(folder.rglob("*"))
    if file.is_file() and not file.name.endswith(".meta.json")
}
SAMPLES = [*FILES, "sqlite", "pi", "mooncake", "kv-cache-tester", "ledger"]
BY_LINE = (".jsonl", ".prom", "pi", "mooncake")
STRANGE = {
    "noise": [
        b"Traceback (most recent call last):\n",
        b"\xff\xfe\x00garbage\n",
        b"[1,2,3]\n",
        b'"text"\n',
        b"null\n",
        b"{}\n",
        b"\n",
        b"  \t\n",
        b"\r\n",
    ],
}


def sample(name: str, tmp_path: Path) -> bytes:
    made: dict[str, Callable[[], bytes]] = {
        "pi": pi_session,
        "mooncake": mooncake,
        "kv-cache-tester": conversation,
        "ledger": lambda: ours(tmp_path),
        "sqlite": lambda: sqlite(tmp_path),
    }
    return made[name]() if name in made else FILES[name].read_bytes()


def totals(data: bytes, tmp_path: Path) -> tuple[int, int, int, Faults]:
    """Calls, prompt tokens, output tokens, and what was reported; the report is worked out to its end."""
    path, faults = tmp_path / "hurt.log", Faults()
    path.write_bytes(data)
    records = list(records_at(str(path), faults)[1])
    summarise(records)
    usages = [record.usage for record in records if isinstance(record, ModelCall) and record.usage]
    known = sum(sum(count or 0 for count in (one.fresh, one.read, one.write_5m, one.write_1h)) for one in usages)
    return (
        sum(isinstance(record, ModelCall) for record in records),
        known,
        sum(one.output or 0 for one in usages),
        faults,
    )


def test_every_format_has_a_sample(tmp_path: Path) -> None:
    found = set()
    for name in SAMPLES:
        path = tmp_path / "a"
        path.write_bytes(sample(name, tmp_path))
        found.add(records_at(str(path))[0].name)
    assert found == {known.name for known in FORMATS}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("share", [0.6, 0.97])
def test_cut_off(name: str, share: float, tmp_path: Path) -> None:
    data = sample(name, tmp_path)
    first = data.index(b"\n") + 1 if name.endswith(BY_LINE) or name == "ledger" else 0
    cut = data[: max(first, int(len(data) * share))]
    n, sent, output, faults = totals(cut, tmp_path)
    whole = totals(data, tmp_path)
    is_one_scrape = any("one scrape only" in what for what in faults.counts)  # counts since the server was started
    assert is_one_scrape or (n <= whole[0] and sent <= whole[1] and output <= whole[2])
    assert len(faults) or cut.endswith(b"\n") or name.endswith(".prom") or cut.rstrip().endswith(b"}")


@pytest.mark.parametrize("name", [name for name in SAMPLES if name.endswith(BY_LINE)])
def test_every_line_twice(name: str, tmp_path: Path) -> None:
    lines = sample(name, tmp_path).splitlines(keepends=True)
    doubled = b"".join(line * 2 for line in lines)
    assert totals(doubled, tmp_path)[:3] == totals(b"".join(lines), tmp_path)[:3]
    assert totals(b"".join(lines * 2), tmp_path)[:3] == totals(b"".join(lines), tmp_path)[:3]


@pytest.mark.parametrize("name", [name for name in SAMPLES if name.endswith(BY_LINE) and not name.endswith(".prom")])
@pytest.mark.parametrize("seed", range(1))
def test_out_of_order(name: str, seed: int, tmp_path: Path) -> None:
    first, *lines = sample(name, tmp_path).splitlines(keepends=True)
    random.Random(seed).shuffle(lines)
    before, after = totals(first + b"".join(sorted(lines)), tmp_path), totals(b"".join((first, *lines)), tmp_path)
    whole = totals(sample(name, tmp_path), tmp_path)
    assert after[0] <= max(whole[0], before[0]) and after[1] <= whole[1] and after[2] <= whole[2]
    assert after[1:3] == whole[1:3] or len(after[3])


@pytest.mark.parametrize("name", [name for name in SAMPLES if name.endswith(BY_LINE)])
@pytest.mark.parametrize("other", ["claude_code", "raw_pairs", "noise"])
def test_lines_of_something_else_among_them(name: str, other: str, tmp_path: Path) -> None:
    strange = STRANGE.get(other) or next(
        path.read_bytes().splitlines(keepends=True)
        for name, path in FILES.items()
        if name.startswith(other) and path.suffix == ".jsonl"
    )
    first, *lines = sample(name, tmp_path).splitlines(keepends=True)
    mixed = [first, *(line for i, own in enumerate(lines) for line in (strange[i % len(strange)], own))]
    whole, after = totals(sample(name, tmp_path), tmp_path), totals(b"".join(mixed), tmp_path)
    is_same = name.startswith(other) or name.endswith(".prom")
    assert is_same or after[:3] == whole[:3] or len(after[3]), (
        "lines of another format are neither passed over nor reported"
    )


# but for SQLite, where a text of another length is damage of the file
@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "sqlite"])
@pytest.mark.parametrize("year", ["1970", "2199"])
def test_wrong_clocks(name: str, year: str, tmp_path: Path) -> None:
    data = sample(name, tmp_path)
    wrong = re.sub(rb"20(?:25|26)-(\d\d)-(\d\d)", rb"%b-\1-\2" % year.encode(), data)
    wrong = re.sub(rb'(?<=[:" ])17\d{8}(?=\d{0,9}[,."} ])', b"1%s7654321" % (b"00" if year == "1970" else b"99"), wrong)
    whole, after = totals(data, tmp_path), totals(wrong, tmp_path)
    assert after[:3] == whole[:3]


# but for our own ledger, where later lines build on a broken one, and for a conversation of blocks, which is one value
# on one line
@pytest.mark.parametrize("name", SAMPLES[:-2])
@pytest.mark.parametrize("seed", range(2))
def test_bytes_gone_wrong(name: str, seed: int, tmp_path: Path) -> None:
    data, draw = bytearray(sample(name, tmp_path)), random.Random(seed)
    whole = totals(bytes(data), tmp_path)
    first = 600 if len(data) > 2_000 else len(data) // 2
    for _ in range(3):
        data[draw.randrange(first, len(data))] = draw.randrange(256)
    after = totals(bytes(data), tmp_path)
    assert after[0] >= whole[0] or len(after[3]), "calls are lost without a word"


def test_a_row_nested_deeper_than_can_be_printed_is_reported_with_its_line(tmp_path: Path) -> None:
    lines = FILES["aider-analytics.jsonl"].read_bytes().splitlines(keepends=True)
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    hurt = [*lines[:-2], lines[-2].replace(b'"cost": 0', b'"cost": ' + deep), lines[-1]]
    n, *_, faults = totals(b"".join(hurt), tmp_path)
    assert n == totals(b"".join(lines), tmp_path)[0] - 1
    assert (len(lines) - 1, CUT) in {(fault.line, fault.what) for fault in faults.kept}


def test_a_ledger_row_whose_field_is_of_another_type_is_left_out_and_reported(tmp_path: Path) -> None:
    data = ours(tmp_path)
    for good, bad in ((b'"output":350', b'"output":' + b"9" * 300), (b'"model":"claude-opus-4-5"', b'"model":5')):
        n, _, _, faults = totals(data.replace(good, bad, 1), tmp_path)
        assert n < totals(data, tmp_path)[0] and faults.kept[0].line > 1
