"""A ledger gives back what was recorded: in memory, through a file, after a crash."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.errors import LogCorrupt, UnreadableLog
from contextkit.ledger.calls import BlockIds, Bodies, Chain, ModelCall, Outline, decode, encode
from contextkit.ledger.ledger import Ledger, Recorder
from contextkit.ledger.prompts import outline

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
counts = st.none() | st.integers(0, 2**70)
moments = st.floats(allow_nan=False, allow_infinity=False)
hexes = st.binary(min_size=2, max_size=4).map(bytes.hex)
integers = st.lists(st.integers(-1, 10**6), max_size=4).map(tuple)
usages = st.builds(Usage, counts, counts, counts, counts, counts, st.booleans())
breakpoints = st.builds(Breakpoint, st.integers(0, 99), st.integers(1, 9999), st.integers(1, 99), st.booleans())
outlines = st.builds(
    Outline,
    st.integers(0, 9),
    st.tuples(hexes, hexes, hexes),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.lists(hexes, max_size=4).map(tuple),
    integers,
    integers,
    integers,
    st.lists(breakpoints, max_size=4).map(tuple),
    st.integers(0, 9),
)
blocks = st.builds(BlockIds, st.integers(1, 512), st.lists(st.integers(-(2**70), 2**70), max_size=4).map(tuple))
prompts = st.none() | outlines | st.builds(Bodies, st.binary(max_size=20) | words.map(str.encode)) | blocks
calls = st.builds(
    ModelCall,
    words,
    words,
    words,
    moments,
    st.none() | moments,
    st.none() | moments,
    words,
    words,
    prompts,
    st.none() | usages,
    st.none() | usages,
    st.none() | words,
)


def an_call(number: int = 0, **more: Any) -> ModelCall:
    row: dict[str, Any] = {
        "id": f"msg_{number}",
        "session": "s",
        "lane": "main",
        "at": float(number),
        "first_byte_at": None,
        "ended_at": None,
        "provider": "anthropic",
        "model": "claude-opus-4-5",
        "prompt": None,
        "usage": None,
        "predicted": None,
        "error": None,
    }
    return ModelCall(**{**row, **more})


def a_prompt(bodies: list[str], namespaces: tuple[bytes, bytes, bytes] = (b"t", b"s", b"m")) -> Prompt:
    digests: list[bytes] = []
    for body in bodies:
        digests.append(blake2b((digests[-1] if digests else b"") + body.encode(), digest_size=16).digest())
    n = len(bodies)
    return Prompt(
        namespaces,
        (1, 2),
        digests,
        [10 * (i + 1) for i in range(n)],
        list(range(n)),
        (Breakpoint(n - 1, 300),) if n else (),
        n,
    )


@given(calls)
def test_a_row_reads_back_as_it_was(call: ModelCall) -> None:
    line = Chain().add(encode(call))[0].rstrip(b"\n")
    assert b"\n" not in line
    assert decode(line) == call
    assert Chain().add(encode(decode(line)))[0] == line + b"\n"


def test_a_file_holds_the_same_calls_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        ledger.append(an_call(0, usage=Usage(1, 2, 3, 4, 5)))
    with Ledger.open(path) as ledger:
        ledger.append(an_call(1, prompt=Bodies(b'{"model":"m"}')))
        assert [call.id for call in ledger] == ["msg_0", "msg_1"]
    read = Ledger.read(path)
    assert list(read) == list(ledger.calls)
    assert len(read) == 2 and read.torn is None
    assert path.read_text("utf-8").splitlines()[0] == '{"contextkit_ledger":2}'
    assert all(json.loads(line) for line in path.read_text("utf-8").splitlines())


def test_each_append_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for number in range(3):
            ledger.append(an_call(number))
            assert len(Ledger.read(path)) == number + 1


@pytest.mark.parametrize("cut", [1, 60])
def test_a_torn_last_line_is_set_aside(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        ledger.append(an_call(0))
        ledger.append(an_call(1))
    path.write_bytes(path.read_bytes()[:-cut])
    torn = path.read_bytes().splitlines()[-1]

    assert [call.id for call in Ledger.read(path)] == ["msg_0"]
    with pytest.warns(UserWarning, match=r"unfinished line.*ledger\.jsonl\.torn"):
        ledger = Ledger.open(path)
    with ledger:
        assert ledger.torn == torn == (tmp_path / "ledger.jsonl.torn").read_bytes()
        ledger.append(an_call(2))
    assert [call.id for call in Ledger.read(path)] == ["msg_0", "msg_2"]


@pytest.mark.parametrize("left", [b"", b'{"contextk'])
def test_a_crash_while_the_file_was_made_leaves_an_empty_ledger(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(left)
    assert len(Ledger.read(path)) == 0


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (b'{"type":"session"}\n', "not a ledger"),
        (b"hello\n", "not a ledger"),
        (b'{"contextkit_ledger":9}\n', "ledger format 9"),
    ],
)
def test_another_file_is_refused_and_left_alone(tmp_path: Path, first: bytes, says: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(first)
    with pytest.raises(UnreadableLog, match=f"line 1: {says}"):
        Ledger.open(path)
    assert path.read_bytes() == first


histories = st.lists(
    st.tuples(st.sampled_from(["main", "side"]), st.lists(st.sampled_from("abc"), max_size=6)), max_size=8
)


@given(histories)
def test_prompts_come_back_from_their_differences(history: list[tuple[str, list[str]]]) -> None:
    recorder = Recorder(Ledger())
    sent = [(lane, a_prompt(bodies)) for lane, bodies in history]
    for number, (lane, prompt) in enumerate(sent):
        recorder.record(an_call(number, lane=lane), prompt, list(range(prompt.n)), epoch=0)
    for (_, prompt), (_, found) in zip(sent, recorder.ledger.prompts(), strict=True):
        assert found is not None
        assert (found.n, found.namespaces, found.level_ends, found.breakpoints) == (
            prompt.n,
            prompt.namespaces,
            prompt.level_ends,
            prompt.breakpoints,
        )
        assert list(found.digests) == list(prompt.digests)
        assert list(found.ends_tokens) == list(prompt.ends_tokens)
        assert list(found.positions) == list(prompt.positions)


@given(st.lists(st.sampled_from("ab"), max_size=8), st.lists(st.sampled_from("ab"), max_size=8))
def test_an_outline_keeps_the_common_words_whatever_the_settings(one: list[str], other: list[str]) -> None:
    common = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    made = outline(a_prompt(one), a_prompt(other, (b"t", b"s", b"another")), range(len(other)), 0)
    assert made.keep == common
    assert len(made.digests) == len(made.entries) == len(other) - common


def test_a_recorder_continues_a_ledger_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        Recorder(ledger).record(an_call(0), a_prompt(["t", "s", "a"]), [0, 0, 1])
    with Ledger.open(path) as ledger:
        row = Recorder(ledger).record(an_call(1), a_prompt(["t", "s", "a", "b"]), [0, 0, 1, 2])
    assert isinstance(row.prompt, Outline)
    assert (row.prompt.keep, row.prompt.entries) == (3, (2,))


def test_an_outline_without_its_lane_is_named() -> None:
    ledger = Ledger()
    Recorder(ledger).record(an_call(0), a_prompt(["a"]), [0])
    prompt = ledger[0].prompt
    assert isinstance(prompt, Outline)
    stray = Ledger()
    stray.append(an_call(7, prompt=Outline(3, *[getattr(prompt, name) for name in prompt.__slots__[1:]])))
    with pytest.raises(LogCorrupt, match="'msg_7' keeps 3 segments of a lane that has 0"):
        list(stray.prompts())
