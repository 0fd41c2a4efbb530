"""The scripted model of the demonstration: it looks around, reads, searches, reads more, and reports.

Takes a workspace, gives the replies it will make, in order. It is the same for every way of building the requests, so
that the bills can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from re import findall

from contextkit.canonical import Json
from contextkit.cli.demos.workspace import Workspace

SECONDS = 8.0
"""How long each reply takes on the demonstration's clock."""
ATTACHED = 24
"""Files the user pastes as blocks of their own half-way: more positions than one lookup goes back over."""


def replies(workspace: Workspace, turns: int) -> list[Json]:
    """One reply a turn; the first half before the user's second message, the rest after it."""
    calls = list(islice(_calls(workspace), max(turns - 2, 2)))
    half = len(calls) // 2
    first = [_asks(call) for call in calls[:half]] + [_says("I have an overview. Which files do you care about most?")]
    return first + [_asks(call) for call in calls[half:]] + [_says(_report(workspace))]


def attachments(workspace: Workspace) -> list[str]:
    """What the user pastes: the head of each of some files, one block each."""
    paths = workspace.files[:ATTACHED] or ["(no files)"]
    blocks = [
        f"<open-file path={path!r}>\n{workspace.read(path, n_bytes=300)}\n</open-file>"
        for path in paths
        if path in workspace.files
    ]
    spare = [f"<open-file path='notes-{i}'>\n(empty)\n</open-file>" for i in range(ATTACHED - len(blocks))]
    return [*blocks, *spare]


def _calls(workspace: Workspace) -> Iterator[tuple[str, list[tuple[str, Json]]]]:
    """What it says, and the calls it makes, for as long as anybody asks."""
    files = sorted(workspace.files, key=lambda path: (path.count("/"), path))
    yield "Let me look around.", [("list_files", {"folder": "."})]
    words = _frequent(workspace, files)
    for index in range(10_000):
        path = files[index % len(files)] if files else "."
        if index % 4 == 3:
            yield "Where is this used?", [("search_files", {"text": words[index // 4 % len(words)], "limit": 30})]
        elif index % 4 == 2:
            more = files[(index + 1) % len(files)] if files else "."
            yield "These two belong together.", [("read_file", {"path": path}), ("read_file", {"path": more})]
        else:
            yield f"Reading {path}.", [("read_file", {"path": path, "start": 4000 * (index // max(len(files), 1))})]


def _frequent(workspace: Workspace, files: list[str]) -> list[str]:
    seen = Counter(
        word for path in files[:40] for word in findall(r"[A-Za-z_]{6,}", workspace.read(path, n_bytes=4000))
    )
    return [word for word, _ in seen.most_common(12)] or ["the"]


def _asks(turn: tuple[str, list[tuple[str, Json]]]) -> Json:
    text, calls = turn
    parts = [
        {"type": "text", "text": text},
        *({"type": "call", "name": name, "arguments": arguments} for name, arguments in calls),
    ]
    return {"parts": parts, "seconds": SECONDS}


def _says(text: str) -> Json:
    return {"parts": [{"type": "text", "text": text}], "seconds": SECONDS}


def _report(workspace: Workspace) -> str:
    kinds = Counter(path.rsplit(".", 1)[-1] if "." in path else "(none)" for path in workspace.files)
    listed = ", ".join(f"{count} .{kind}" for kind, count in kinds.most_common(5))
    return f"The project has {len(workspace.files)} text files ({listed})."
