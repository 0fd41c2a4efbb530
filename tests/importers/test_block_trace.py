"""Block traces: both formats, packed or not, and what is wrong with a line that is none."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from contextkit.engines.block_trace import BlockRequest
from contextkit.errors import UnreadableLog
from contextkit.importers.block_trace import BlockTraces, content_of, is_block_trace, trace_files
from contextkit.importers.registry import ledger_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import BlockIds, ModelCall

LINES = [
    {"timestamp": 0, "input_length": 1000, "output_length": 6, "hash_ids": [0, 1]},
    {"timestamp": 3000, "input_length": 1500, "output_length": 4, "hash_ids": [0, 1, 2]},
]
INNER = {"t": 1.5, "type": "n", "model": "small", "in": 130, "out": 5, "hash_ids": [9, 10]}
CONVERSATION: dict[str, Any] = {
    "id": "trace_1",
    "models": 1,
    "block_size": 64,
    "hash_id_scope": "local",
    "requests": [
        {"t": 0.0, "type": "n", "model": "large", "in": 200, "out": 3, "hash_ids": [1, 2, 3]},
        {"t": 10.0, "type": "subagent", "agent_id": "agent_001", "requests": [INNER]},
        {"t": 20.0, "type": "s", "model": "large", "in": 260, "out": 3, "hash_ids": [1, 2, 3, 4]},
    ],
}


def written(path: Path, content: str, *, is_packed: bool = False) -> str:
    data = content.encode()
    path.write_bytes(gzip.compress(data) if is_packed else data)
    return str(path)


def mooncake(path: Path, *, is_packed: bool = False) -> str:
    return written(path, "".join(json.dumps(line) + "\n" for line in LINES), is_packed=is_packed)


def conversation(path: Path, *, is_packed: bool = False) -> str:
    return written(path, json.dumps(CONVERSATION), is_packed=is_packed)


def ids_of(requests: list[BlockRequest]) -> list[list[int]]:
    return [list(request.ids) for request in requests]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_mooncake_trace(tmp_path: Path, is_packed: bool) -> None:
    name = mooncake(tmp_path / "trace.jsonl", is_packed=is_packed)
    assert list(BlockTraces().read(name)) == [
        BlockRequest("trace.jsonl", "main", 0.0, 512, [0, 1], 1000, 6),
        BlockRequest("trace.jsonl", "main", 3.0, 512, [0, 1, 2], 1500, 4),
    ]


def test_a_conversation_with_its_sub_agents(tmp_path: Path) -> None:
    name = conversation(tmp_path / "one.json")
    assert list(BlockTraces().read(name)) == [
        BlockRequest("trace_1", "main", 0.0, 64, [1, 2, 3], 200, 3, "large"),
        BlockRequest("trace_1", "agent_001", 11.5, 64, [9, 10], 130, 5, "small"),
        BlockRequest("trace_1", "main", 20.0, 64, [1, 2, 3, 4], 260, 3, "large"),
    ]


def test_the_ids_of_two_files_never_meet(tmp_path: Path) -> None:
    traces, names = (
        BlockTraces(),
        [conversation(tmp_path / "a.json"), conversation(tmp_path / "b.json"), mooncake(tmp_path / "c.jsonl")],
    )
    first, second, third = (ids_of(list(traces.read(name))) for name in names)
    sets = [{block for ids in file for block in ids} for file in (first, second, third)]
    assert not sets[0] & sets[1] and not sets[1] & sets[2] and not sets[0] & sets[2]
    assert first == [[1, 2, 3], [9, 10], [1, 2, 3, 4]]
    assert [[block - 11 for block in ids] for ids in second] == first


def test_conversations_that_begin_together_are_mixed_by_time(tmp_path: Path) -> None:
    requests = list(BlockTraces().together([conversation(tmp_path / "a.json"), conversation(tmp_path / "b.json")]))
    assert [request.at for request in requests] == [0.0, 0.0, 11.5, 11.5, 20.0, 20.0]
    assert len({block for ids in ids_of(requests) for block in ids}) == 12


def test_folders_and_patterns_name_their_files_once(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    packed = conversation(tmp_path / "inner" / "c.json.gz", is_packed=True)
    names = [conversation(tmp_path / "b.json"), packed, mooncake(tmp_path / "a.jsonl")]
    (tmp_path / "notes.txt").write_text("none")
    assert trace_files([str(tmp_path)]) == sorted(names)
    assert trace_files([str(tmp_path / "*.json"), str(tmp_path / "b.json")]) == names[:1]
    with pytest.raises(UnreadableLog, match="no such file"):
        trace_files([str(tmp_path / "*.csv")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableLog, match=r"no \.jsonl, .*in this folder"):
        trace_files([str(tmp_path / "empty")])


def test_standard_input_may_be_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b'{"x": 1}\n', gzip.compress(b'{"x": 1}\n')):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert content_of("-") == b'{"x": 1}\n'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", "not JSON"),
        ("[1, 2]", "no JSON object"),
        ('{"timestamp": 1, "input_length": 10, "output_length": 1}', "no 'hash_ids'"),
        ('{"timestamp": 1, "input_length": 10, "output_length": 1, "hash_ids": 3}', "hash_ids is no list"),
        ('{"timestamp": 1, "input_length": 10, "output_length": 1, "hash_ids": ["a"]}', "str"),
        ('{"timestamp": 1, "input_length": 10, "output_length": 1, "hash_ids": [-4]}', "negative|unsigned"),
        ('{"timestamp": 1, "input_length": "10", "output_length": 1, "hash_ids": [1]}', "natural number"),
        (
            '{"timestamp": 1, "input_length": 5000, "output_length": 1, "hash_ids": [1]}',
            "1 hash_ids for 5000 tokens in blocks of 512",
        ),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str, said: str) -> None:
    name = written(tmp_path / "bad.jsonl", json.dumps(LINES[0]) + "\n\n" + line + "\n")
    with pytest.raises(UnreadableLog, match=rf"bad\.jsonl:3: .*({said})"):
        list(BlockTraces().read(name))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda trace: trace.pop("block_size"), ":1: no 'block_size'"),
        (lambda trace: trace.update(block_size=0), "block_size is 0"),
        (lambda trace: trace["requests"][2].pop("hash_ids"), r"\$\.requests\[2\]: no 'hash_ids'"),
        (
            lambda trace: trace["requests"][1]["requests"][0].update(hash_ids=[None]),
            r"\$\.requests\[1\]\.requests\[0\]: ",
        ),
        (lambda trace: trace["requests"].append(7), r"\$\.requests\[3\]: "),
    ],
)
def test_a_conversation_that_is_none_is_named_by_its_place(tmp_path: Path, change: Any, said: str) -> None:
    trace = json.loads(json.dumps(CONVERSATION))
    change(trace)
    with pytest.raises(UnreadableLog, match=rf"bad\.json.*{said}"):
        list(BlockTraces().read(written(tmp_path / "bad.json", json.dumps(trace))))


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"\x1f\x8b\x08rubbish", gzip.compress(b"x" * 1000, mtime=0)[:20]],
    ids=["nothing", "blank lines", "no gzip", "cut"],
)
def test_a_file_that_holds_nothing_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "void.json.gz").write_bytes(content)
    with pytest.raises(UnreadableLog, match=r"void\.json\.gz"):
        list(BlockTraces().read(str(tmp_path / "void.json.gz")))


def test_a_trace_is_known_by_its_beginning(tmp_path: Path) -> None:
    assert is_block_trace(json.dumps(LINES[0]).encode()) and is_block_trace(json.dumps(CONVERSATION).encode())
    assert not is_block_trace(b'{"contextkit_ledger":1}\n{"hash_ids":[]}') and not is_block_trace(b"hash_ids")
    name, ledger = ledger_at(conversation(tmp_path / "one.json.gz", is_packed=True))
    assert (name, len(ledger), ledger[1].lane, ledger[1].usage) == ("block trace", 3, "agent_001", None)
    assert ledger[0].prompt == BlockIds(64, (1, 2, 3))


def test_real_traces(shared: Path) -> None:
    folder = shared / "data"
    if not (folder / "mooncake").is_dir():
        pytest.skip("the traces are not beside this checkout")
    requests = list(BlockTraces().read(str(folder / "mooncake" / "synthetic_trace.jsonl.gz")))
    assert (len(requests), sum(map(len, ids_of(requests))), sum(request.n_tokens for request in requests)) == (
        3_993,
        121_877,
        61_194_628,
    )
    told = [
        record.prompt for record in records_in([str(folder / "mooncake")], Faults()) if isinstance(record, ModelCall)
    ]
    assert (len(told), sum(len(prompt.ids) for prompt in told if isinstance(prompt, BlockIds))) == (3_993, 121_877)
    names = trace_files([str(folder / "claude-code-blocks")])
    assert len(names) == 200
    requests = list(BlockTraces().read(names[0]))
    assert all(len(request.ids) == request.n_tokens // 64 for request in requests)
