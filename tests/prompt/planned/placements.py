"""How others place markers: four rules restated in a line each, and the packages' own code where an interpreter has one
of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from contextkit.cache.prompt import Breakpoint
from contextkit.prompt.prompt import PromptColumns
from contextkit.providers.anthropic.messages import parse
from tests.prompt.planned.cost import Fixed, Marks
from tests.prompt.planned.sessions import Session

Json = Any
SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "planner_peers.py"
PEERS = {
    "langchain": "langchain_anthropic",
    "pydantic-ai": "pydantic_ai",
    "litellm": "litellm",
    "litellm-three": "litellm",
}
"""Name → the package whose code it is."""
_AUTOMATIC = {"type": "ephemeral"}


def _able(columns: PromptColumns, n: int) -> int | None:
    return next((place for place in range(n - 1, -1, -1) if columns.breakpoint_offsets[place] >= 0), None)


def _at(places: Iterable[int | None]) -> Marks:
    return tuple(Breakpoint(place, 300) for place in sorted({place for place in places if place is not None}))


def automatic(body: Json, columns: PromptColumns) -> Marks:
    """A top-level `cache_control`: as the endpoint itself places it."""
    return parse({**body, "cache_control": _AUTOMATIC}).prompt.breakpoints


def last_message(body: Json, columns: PromptColumns) -> Marks:
    """The last block of the last message."""
    return _at([_able(columns, len(columns))])


def system_and_three(body: Json, columns: PromptColumns) -> Marks:
    """The system prompt and the last three messages."""
    ends, place = [], columns.level_ends[1]
    for message in body["messages"]:
        place += len(message["content"])
        ends.append(place)
    return _at(_able(columns, end) for end in (columns.level_ends[1], *ends[-3:]))


RESTATED: dict[str, Callable[[Json, PromptColumns], Marks]] = {
    "automatic caching": automatic,
    "last message only": last_message,
    "system and three": system_and_three,
}


def restated(sessions: Iterable[Session], rule: Callable[[Json, PromptColumns], Marks]) -> Fixed:
    return Fixed(
        {
            (session.name, index): rule(call.body, session.prompts[index])
            for session in sessions
            for index, call in enumerate(session.calls)
        }
    )


def run_by_package(sessions: list[Session], name: str, python: Path) -> Fixed:
    """The marks that package sets on the same bodies, run by an interpreter that has it."""
    bodies = [(session, index) for session in sessions for index in range(len(session.calls))]
    lines = "".join(json.dumps(unthought(session.calls[index].body)) + "\n" for session, index in bodies)
    done = subprocess.run([str(python), str(SCRIPT), name], input=lines, capture_output=True, text=True, check=True)
    rows = map(json.loads, done.stdout.splitlines())
    return Fixed(
        {(session.name, index): _found(session, index, row) for (session, index), row in zip(bodies, rows, strict=True)}
    )


def unthought(body: Json) -> Json:
    """Without thinking, which nobody can mark and not every package takes back."""
    messages = [
        {**one, "content": [block for block in one["content"] if block["type"] != "thinking"]}
        for one in body["messages"]
    ]
    return {**body, "messages": [one for one in messages if one["content"]]}


def _found(session: Session, index: int, row: Json) -> Marks:
    numbers = session.numbers[index]
    marks = {numbers[number]: Breakpoint(numbers[number], 300 if ttl == "5m" else 3600) for number, ttl in row["marks"]}
    if row["automatic"]:
        marks |= {
            mark.segment: mark
            for mark in automatic(session.calls[index].body, session.prompts[index])
            if mark.segment not in marks
        }
    return tuple(marks[place] for place in sorted(marks))


def python_with(folder: Path | None, package: str) -> Path | None:
    """An interpreter below `folder` (one virtual environment a folder) that can import `package`."""
    found = sorted(folder.glob("*/bin/python")) + sorted(folder.glob("*/Scripts/python.exe")) if folder else []
    tries = (
        (one, subprocess.run([str(one), "-c", f"import {package}"], capture_output=True, check=False)) for one in found
    )
    return next((one for one, done in tries if not done.returncode), None)


def version_of(python: Path, package: str) -> str:
    name = {"langchain_anthropic": "langchain-anthropic", "pydantic_ai": "pydantic-ai-slim"}.get(package, package)
    asked = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
