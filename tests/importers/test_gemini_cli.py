"""Sessions of the Gemini CLI: messages made here, and real sessions, whose totals equal a count of their messages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall

FIXTURES = Path(__file__).parent / "fixtures" / "gemini_cli"
BILLS = [Usage(11_000, 0, 0, 0, 130), Usage(425, 10_900, 0, 0, 60), Usage(300, 11_200, 0, 0, 45)]


def read(path: Path) -> tuple[list[ModelCall], Faults]:
    faults = Faults()
    known, records = records_at(str(path), faults)
    assert known.name == "Gemini CLI session"
    return [one for one in records if isinstance(one, ModelCall)], faults


def test_a_session_resumed_in_another_file_is_counted_once() -> None:
    faults = Faults()
    records = list(records_in([str(FIXTURES / "session.json"), str(FIXTURES / "session.jsonl")], faults))
    assert len([one for one in records if isinstance(one, ModelCall)]) == 3
    assert faults.kept[-1].what == "3 of its calls were read before; counted once"


@pytest.mark.parametrize(
    ("tokens", "bill"),
    [
        ({"input": 100, "output": 5, "cached": 90, "thoughts": 3, "tool": 0, "total": 198}, Usage(100, 90, 0, 0, 8)),
        ({"input": 100, "output": 5, "cached": 120, "total": 105}, None),
        ({"input": 100, "output": 5, "new": 9}, Usage(100, 0, 0, 0, 5)),
        ({"input": 0, "output": 0, "cached": 0, "total": 0}, None),
        ({"output": "5"}, None),
    ],
)
def test_the_total_tells_what_the_input_holds(tmp_path: Path, tokens: dict[str, object], bill: Usage | None) -> None:
    head = {"sessionId": "a", "projectHash": "b", "startTime": "2026-01-10T02:08:26Z", "lastUpdated": ""}
    message = {"id": "g", "timestamp": "2026-01-10T02:08:30Z", "type": "gemini", "tokens": tokens, "model": "new"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**head, "messages": [message]}), "utf-8")
    calls, _ = read(path)
    assert [call.usage for call in calls] == [bill]


def test_real_sessions_add_up_to_their_messages(shared: Path) -> None:
    """The count parses the whole file and knows nothing of ours."""
    paths = sorted((shared / "data" / "agent-logs" / "gemini-cli").glob("*.json.gz"))
    assert paths
    n_calls = 0
    for path in paths:
        sums = [0] * 3
        for message in json.loads(gzip.decompress(path.read_bytes()))["messages"]:
            if message.get("tokens"):
                said = message["tokens"]
                output = said["output"] + said["thoughts"]
                counts = (said["input"] - said["cached"] + said["tool"], said["cached"], output)
                assert sum(counts) == said["total"]
                sums = [one + other for one, other in zip(sums, counts, strict=True)]
                n_calls += 1
        calls, _ = read(path)
        usages = [call.usage for call in calls if call.usage]
        assert [sum(getattr(one, name) or 0 for one in usages) for name in ("fresh", "read", "output")] == sums
    assert n_calls == 17


def test_a_session_whose_keys_somebody_sorted_is_known(tmp_path: Path) -> None:
    told = json.loads((FIXTURES / "session.json").read_text("utf-8"))
    told["messages"][0] = {**told["messages"][0], "content": "a long question " * 400}
    path = tmp_path / "sorted.json"
    path.write_text(json.dumps({**told, "lastUpdated": "2026-03-24T20:15:06Z"}, indent=2, sort_keys=True), "utf-8")
    assert [call.usage for call in read(path)[0]] == BILLS
