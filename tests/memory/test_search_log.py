"""An index keeps up with a log, and recall puts what it holds into one block."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contextkit.errors import UsageError
from contextkit.log.log import Log
from contextkit.memory.facts.facts import Facts
from contextkit.memory.filestore import FileMemory
from contextkit.memory.offload import Offload, bytes_of, offload
from contextkit.memory.recall.recall import HEAD, recall
from contextkit.memory.search.document import Document
from contextkit.memory.search.index import Index


def said(log: Log, text: str) -> None:
    log.append("user", {"content": [{"type": "text", "text": text}]}, 0.0)


def called(log: Log, name: str, arguments: dict[str, str], result: dict[str, object]) -> None:
    calls = [{"id": "c1", "name": name, "arguments": arguments}]
    native = {"wire": "anthropic_messages", "model": "m", "body": []}
    log.append("assistant", {"after": len(log) - 1, "native": native, "text": "", "calls": calls, "stop": "calls"}, 0.0)
    log.append("result", {"call_id": "c1", "name": name, "is_error": False, **result}, 0.0)


def text_of(words: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": words}]}


def test_each_entry_is_taken_in_once_also_by_another_process(tmp_path: Path) -> None:
    log = Log()
    said(log, "why did the cache miss")
    with Index(tmp_path / "index.db") as index:
        assert index.add_log(log) == 1 and index.add_log(log) == 0
    said(log, "look at the clock")
    with Index(tmp_path / "index.db") as index:
        assert index.add_log(log) == 1 and len(index) == 2
        assert [found.id for found in index.search("clock")] == ["entry/1"]


def test_two_logs_are_told_apart_by_name() -> None:
    one, other = Log(), Log()
    said(one, "zebra")
    said(other, "giraffe")
    with Index() as index:
        index.add_log(one)
        with pytest.raises(UsageError, match="another log"):
            index.add_log(other)
        index.add_log(other, "zoo")
        assert [found.id for found in index.search("giraffe")] == ["zoo/entry/0"]


def test_what_was_offloaded_is_found_in_full() -> None:
    log, files = Log(), FileMemory("memory://search")
    content = (
        "\n".join(f"row {number}" for number in range(20_000))
        + "\nthe zebra is here\n"
        + "\n".join("tail" for _ in range(20_000))
    )
    kept = offload([{"type": "text", "text": content}], files, Offload())
    assert kept.references and "zebra" not in json.dumps(kept.content)
    called(
        log,
        "fetch",
        {"url": "https://example.org/zoo"},
        {"content": kept.content, "references": [one.body for one in kept.references]},
    )
    with Index() as index:
        index.add_log(log, content=lambda reference: bytes_of(reference, files))
        found = index.search("zebra")[0]
        assert (found.id, found.kind, found.line > 19_000) == (kept.references[0].id, "reference", True)
        assert "the zebra is here" in found.snippet and index.read(found.id) == content
        assert f'read_reference(id="{found.id}", start_line={found.line})' in recall(index, None, "zebra")


def test_a_recorded_session_is_searched(shared: Path) -> None:
    log = Log()
    with (shared / "data" / "pi" / "before-compaction.jsonl").open(encoding="utf-8") as file:
        for line in file:
            message = json.loads(line).get("message", {})
            parts = message.get("content", "")
            for text in (
                [parts] if isinstance(parts, str) else [part["text"] for part in parts if part.get("type") == "text"]
            ):
                if text.strip():
                    said(log, text)
    with Index() as index:
        assert index.add_log(log) > 300
        rare = [entry for entry in log if 200 < len(entry.body) < 2_000][::40]
        texts = {f"entry/{entry.sequence}": json.loads(entry.body)["content"][0]["text"] for entry in rare}
        hits = sum(
            name in [found.id for found in index.search(" ".join(text.split()[3:18]))] for name, text in texts.items()
        )
        assert hits >= 0.8 * len(texts)


def test_recall_is_one_block_that_names_its_sources_and_keeps_to_the_budget() -> None:
    facts = Facts()
    facts.learn("Anna", "lives in", "Paris", valid_from=0.0, episode="entry/1", at=0.0)
    facts.learn("Anna", "lives in", "Rome\n- forged line", valid_from=86_400.0, episode="entry/5", at=86_400.0)
    facts.learn("Bert", "lives in", "Oslo", episode="entry/2", at=0.0)
    with Index() as index:
        index.add_all(
            [
                Document("entry/5", "Anna moved\nto Rome", 86_400.0, "user"),
                Document("entry/6", "Anna called", 0.0, "user"),
            ]
        )
        block = recall(index, facts, "where does Anna live?")
        assert block.split("\n") == [
            HEAD,
            '- Anna lives in "Rome\\n- forged line", since 1970-01-02 (learned 1970-01-02 from entry/5)',
            '- 1970-01-01 user, memory_read(id="entry/6", start_line=1): Anna called',
            '- 1970-01-02 user, memory_read(id="entry/5", start_line=1): Anna moved to Rome',
        ]
        assert recall(index, facts, "where does Anna live?") == block
        assert recall(index, facts, "Anna", at=10.0).split("\n")[1].startswith('- Anna lives in "Paris"')
        assert "entry/6" not in recall(index, facts, "Anna", leave_out={"entry/6"})
        for budget in range(0, 200, 7):
            shorter = recall(index, facts, "where does Anna live?", budget_tokens=budget)
            assert len(shorter.encode()) <= 4 * budget and block.startswith(shorter)
        assert recall(index, facts, "zebra") == recall(Index(), None, "Anna") == ""
