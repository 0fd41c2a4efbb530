"""What a newcomer gets wrong with a memory is answered in words: what, where, what now."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, FileMemory
from contextkit.errors import (
    FileErased,
    FileMissing,
    PathRefused,
    SourceChanged,
    StorageError,
    UsageError,
)
from contextkit.memory import Memory, Offload

_numbers = count()
MODEL = AnthropicMessages("claude-opus-5", max_tokens=1024)
PAGE = "row of text\n" * 2_000
RULE = Offload(300, 50)


def files() -> FileMemory:
    return FileMemory(f"memory://refusals-{next(_numbers)}")


def asked(context: Context, number: int = 1) -> Context:
    """The model has made a call."""
    if len(context.log) == 1:
        context.user("Go.")
    block = {"type": "tool_use", "id": f"c{number}", "name": "fetch", "input": {}}
    said = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    context.receive({**said, "content": [block], "stop_reason": "tool_use"}, context.request())
    return context


@dataclass
class Kept:
    """A conversation whose first result is in a file."""

    memory: Memory = field(default_factory=lambda: Memory(files(), offload=RULE))

    def __post_init__(self) -> None:
        self.context = asked(Context(MODEL, memory=self.memory))
        self.entry = self.context.result("c1", PAGE)


def test_what_cannot_be_brought_back_says_why() -> None:
    kept = Kept()
    plain, elsewhere = (Context(MODEL, log=kept.context.log, memory=memory) for memory in (None, files()))
    for context, name, error, words in (
        (kept.context, "zz", FileMissing, "no reference is named 'zz'; the latest are: [0-9a-f]{16}"),
        (kept.context, 99, UsageError, "there is no entry 99"),
        (kept.context, 1, UsageError, "is no result but user"),
        (plain, kept.entry, UsageError, "open the conversation with it"),
        (elsewhere, kept.entry, FileMissing, "the store it was written to"),
    ):
        with pytest.raises(error, match=words):
            context.restore(name)  # type: ignore[arg-type]
    with pytest.raises(PathRefused, match="leads to another folder"):
        Memory(files(), todo="../todo.md")
    with pytest.raises(UsageError, match="URL or path"):
        asked(Context(MODEL)).result("c1", "x", source=3)  # type: ignore[arg-type]


def test_a_reference_comes_back_by_itself_its_id_and_the_beginning_of_its_digest() -> None:
    kept = Kept()
    [reference] = kept.memory.references._by_id.values()
    for name in (reference, reference.id, reference.digest, reference.digest[:6].upper()):
        assert kept.context.restore(name) == PAGE.encode()
    with pytest.raises(FileMissing):
        kept.context.restore(reference.digest[:5])
    kept.memory.files.forget(reference.digest)
    with pytest.raises(FileErased, match="ask for it again"):
        kept.context.restore(kept.entry)


@pytest.mark.parametrize(
    ("fetch", "error", "words"),
    [
        (None, FileMissing, r"at its source, https://example.com, .* give Memory\(…, fetch=…\)"),
        (lambda source: b"other", SourceChanged, "no longer says"),
        (lambda source: "text", UsageError, "gives bytes, not str"),
    ],
)
def test_a_content_that_only_its_source_has(fetch: Any, error: type[Exception], words: str) -> None:
    context = asked(Context(MODEL, memory=Memory(files(), offload=Offload(300, 50, keeps_sources=False), fetch=fetch)))
    entry = context.result("c1", PAGE, source="https://example.com")
    with pytest.raises(error, match=words):
        context.restore(entry)


def test_a_conversation_begun_without_a_memory_keeps_results_in_the_window_and_says_what_to_do() -> None:
    old = asked(Context(MODEL, tools=[]))
    late = Context(MODEL, log=old.log, memory=Memory(files(), offload=RULE))
    with pytest.warns(UserWarning, match=r"stays in the window: the model has no read_reference.*allow_new_head=True"):
        entry = late.result("c1", PAGE)
    assert late.restore(entry)[0]["text"] == PAGE and PAGE.replace("\n", "\\n").encode() in entry.body
    with pytest.raises(UsageError, match="no read_reference"):
        late.compact_results(entry)
    anew = Context(MODEL, log=old.log, tools=[], memory=Memory(files(), offload=RULE), allow_new_head=True)
    assert len(asked(anew, 2).result("c2", PAGE).body) < 1_500
    again = Context(MODEL, log=old.log, memory=anew.memory)
    assert len(asked(again, 3).result("c3", PAGE).body) < 1_500


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() == 0, reason="who may write anywhere, as root may, has no read-only folder"
)
def test_a_folder_one_may_only_read_says_so_and_is_read(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory")
    memory.write("a.md", "kept")
    folders = [Path(folder) for folder, _, _ in os.walk(tmp_path / "memory")]
    for folder in folders:
        folder.chmod(0o555)
    try:
        again = FileMemory(tmp_path / "memory")
        assert again.read("a.md") == "kept"
        with pytest.raises(StorageError, match="choose a folder you may write to"):
            again.keep(b"new")
    finally:
        for folder in folders:
            folder.chmod(0o755)
