"""What a new epoch begins with, and what an old one leaves in files: a compaction is declared, and loses nothing for
good.

Takes parts, entries and references, gives parts. Everything before stays in the log; `context.restore` reaches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contextkit.canonical import Json, parse
from contextkit.log.entry import Entry
from contextkit.memory.filestore import FileMemory
from contextkit.memory.offload import BYTES_PER_TOKEN, Offload, offload
from contextkit.memory.preview import preview
from contextkit.memory.reference import Reference, references_of

INSTRUCTION = (
    "Stop here and write a summary of this conversation for yourself: it will stand in place of everything above. Keep what was asked, "
    "what was decided and why, what is done and what is not, names, paths, numbers and exact wordings that are still needed, and the "
    "ids of references worth reading again. Call no tool. Answer with the summary alone."
)
"""What a summary is asked for with; appended, so that everything before it is read from the cache."""
GOAL_TOKENS = 1_000
"""How much of the first thing the user said is said again."""
MOST_REFERENCES = 40
"""How many are named again; the latest. The others are still found by search, and in the log."""


def opening(summary: Sequence[Json], goal: str, todo: str, references: Iterable[Reference]) -> list[Json]:
    """What the new epoch says: the goal, the summary, what is still to do, and what can be read again.

    >>> [part["text"] for part in opening([{"type": "text", "text": "Two of three prices found."}], "Find three prices.", "", [])]
    ['The user asked, at the beginning:\\nFind three prices.', 'Since then:', 'Two of three prices found.']
    """
    kept = list(references)[-MOST_REFERENCES:]
    listed = [
        f"{one.id}: {one.kind}, {one.n_bytes:,} bytes{f', from {one.source}' if one.source else ''}" for one in kept
    ]
    goal_text = preview(goal.encode(), "text", GOAL_TOKENS * BYTES_PER_TOKEN)
    before = [_text(f"The user asked, at the beginning:\n{goal_text}"), _text("Since then:")] if goal else []
    plan = [_text(todo)] if todo else []
    reading = [_text("\n".join(["Kept outside, for read_reference(id=…):", *listed]))] if listed else []
    return [*before, *summary, *plan, *reading]


def goal_of(entries: Iterable[Entry]) -> str:
    """What the user said first, as text."""
    said: Json = next((parse(entry.body) for entry in entries if entry.kind == "user"), {"content": []})
    return "\n".join(part["text"] for part in said["content"] if part["type"] == "text")


def replaced(results: Iterable[Entry], files: FileMemory, rule: Offload) -> Mapping[str, Any]:
    """Sequence → the content and references of each result that has a part large enough to go.

    For the body of an epoch.
    """
    found = {}
    for entry in results:
        body = parse(entry.body)
        kept = offload(body["content"], files, rule, is_error=body["is_error"], tool=body["name"])
        if kept.references:
            named = [*references_of(entry), *kept.references]
            found[str(entry.sequence)] = {
                "content": kept.content,
                "references": [reference.body for reference in named],
            }
    return found


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
