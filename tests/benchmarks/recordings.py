"""The recorded sessions of a data folder, in the neutral words that `tests.benchmarks.replay` replays.

Only `pi` recorded whole conversations with times and bills. The traces of mini-swe-agent have each prompt as one text
that grows by what a command printed, and what the model said beside it: the growth stands as the result of a call
`bash`. The runs of tau-bench have no times: ten seconds a turn stand in; their policy stands in front of the first user
turn, since a recording has no system prompt."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from contextkit.importers.pi import read_pi
from contextkit.importers.recording import (
    AssistantTurn,
    Call,
    Compacted,
    Event,
    Part,
    Recording,
    Text,
    ToolResultTurn,
    UserTurn,
)
from contextkit.memory.offload import BYTES_PER_TOKEN, Offload
from contextkit.memory.reference import ID_DIGITS, passage

SECONDS = 10.0
"""Between two turns of a recording without times."""
_COMMAND = re.compile(r"```bash\n(.*?)\n```", re.DOTALL)


def recordings(data: Path) -> Iterator[tuple[str, Recording]]:
    """(group, session), every session that has tool results."""
    yield "pi", read_pi(data / "pi" / "before-compaction.jsonl")
    for path in sorted((data / "agent-traces" / "miniswe").glob("*.jsonl.gz")):
        yield "miniswe", _miniswe(path)
    for run in json.loads(gzip.decompress((data / "tau-bench" / "gpt-4o-airline.json.gz").read_bytes())):
        yield "tau-bench", _tau_bench(f"{run['task_id']}-{run['trial']}", run["traj"])


def reading_back(recording: Recording, above_tokens: int, every: int) -> Recording:
    """The same session, but every so many-th offloaded result is read again as soon as it came, whole, by calls of
    `read_reference`."""
    events, places, due, numbers = list[Event](), dict[int | None, int](), list[ToolResultTurn](), count()
    for index, event in enumerate(recording.events):
        if not isinstance(event, ToolResultTurn):
            events += (one for result in due for one in _read(result, Offload(above_tokens, 1).read_bytes))
            due = []
        places[index] = len(events)
        kept_from = places.get(event.keep_from) if isinstance(event, Compacted) else None
        events.append(replace(event, keep_from=kept_from) if isinstance(event, Compacted) else event)
        if (
            isinstance(event, ToolResultTurn)
            and len(_text(event).encode()) > above_tokens * BYTES_PER_TOKEN
            and next(numbers) % every == 0
        ):
            due.append(event)
    return replace(recording, events=tuple(events))


def _read(result: ToolResultTurn, most_bytes: int) -> Iterator[Event]:
    """The calls that read a result again, and their answers."""
    text = _text(result)
    name, line = sha256(text.encode()).hexdigest()[:ID_DIGITS], 1
    while True:
        call = Call(f"{result.call_id}-{line}", "read_reference", {"id": name, "start_line": line})
        shown = passage(text, line, None, most_bytes)
        yield _said(result.at, (call,))
        yield ToolResultTurn(result.at, call.id, call.name, (Text(shown),), False)
        if (more := re.search(r"go on with start_line=(\d+)\]$", shown)) is None:
            return
        line = int(more[1])


def _text(result: ToolResultTurn) -> str:
    return "".join(part.text for part in result.parts if isinstance(part, Text))


def _miniswe(path: Path) -> Recording:
    rows = sorted(map(json.loads, gzip.decompress(path.read_bytes()).splitlines()), key=lambda row: row["timestamp"])
    events: list[Event] = [UserTurn(rows[0]["timestamp"] / 1e6, (Text(rows[0]["input"]),))]
    for number, (row, after) in enumerate(pairwise(rows)):
        at, call = row["timestamp"] / 1e6, Call(f"bash-{number}", "bash", {"command": _command(row["output"])})
        events.append(_said(at, (Text(row["output"].partition("```bash")[0]), call)))
        events.append(
            ToolResultTurn(
                after["timestamp"] / 1e6, call.id, "bash", (Text(after["input"].removeprefix(row["input"])),), False
            )
        )
    events.append(_said(rows[-1]["timestamp"] / 1e6, (Text(rows[-1]["output"]),)))
    return Recording(path.name, "off", None, tuple(events))


def _command(said: str) -> str:
    found = _COMMAND.search(said)
    return found[1] if found else said


def _tau_bench(name: str, messages: list[dict[str, Any]]) -> Recording:
    policy, asked, *rest = messages
    events: list[Event] = [UserTurn(0.0, (Text(f"{policy['content']}\n\n{asked['content']}"),))]
    for number, message in enumerate(rest, 1):
        events.append(_TURNS[message["role"]](number * SECONDS, message))
    return Recording(name, "off", None, tuple(events))


def _assistant(at: float, message: dict[str, Any]) -> Event:
    calls = message.get("tool_calls") or []
    said = [Text(message["content"])] if message["content"] else []
    made = [Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    return _said(at, (*said, *made))


def _said(at: float, parts: tuple[Part, ...]) -> AssistantTurn:
    stop = "calls" if any(isinstance(part, Call) for part in parts) else "done"
    return AssistantTurn(at, at + 1, "", "", parts, stop, None, None)  # type: ignore[arg-type]


_TURNS = {
    "assistant": _assistant,
    "user": lambda at, message: UserTurn(at, (Text(message["content"]),)),
    "tool": lambda at, message: ToolResultTurn(
        at, message["tool_call_id"], message["name"], (Text(message["content"]),), False
    ),
}
