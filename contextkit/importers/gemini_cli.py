"""Sessions of the Gemini CLI (`~/.gemini/tmp/<project>/chats/session-*.json`, since version 0.40 `.jsonl`): their bills.

Takes a source, gives one call for each message of type `gemini` with `tokens`. Prompts are not given: the file
holds neither the system prompt nor the tools.

* `tokens` are the counters of `usageMetadata`: `input` holds the cached ones (`cached`), `thoughts` are beside
  `output`, and what a tool put into the prompt (`tool`) is beside `input`. `total` tells where a version counted them
  differently.
* In a `.jsonl` a message is written again when its tokens or its tools are known; `$set` may hold messages too, and a
  message that `$rewindTo` took back was billed all the same. Of the lines of one message the last with tokens counts.
* `summary` of the session, which newer versions write when it ends, names it; the folder's `.project_root` says where it
  was held.
* A session that was resumed in another file keeps the ids of its messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contextkit.importers.format import has_names
from contextkit.importers.rows import bare, rows, table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import Source
from contextkit.importers.spans import Counts, Reading, counted_usage
from contextkit.importers.transcript import plausible, recorded_id
from contextkit.ledger.calls import ModelCall, Record

PROVIDER = "google"
COUNTERS = "input output total cached thoughts tool"
KEEPS_OTHERS = ("$set", "$rewindTo")


def is_gemini_cli(head: bytes) -> bool:
    """Return whether a file that starts like this is a session.

    >>> is_gemini_cli(b'{"sessionId":"a","projectHash":"b","startTime":"2026-01-10"}'), is_gemini_cli(b'{"sessionId":"a"}')
    (True, False)
    """
    start = bare(head)[:2048]
    is_sorted = (
        b'"lastUpdated"' in start[:128] and b'"messages"' in start[:256]
    )  # somebody wrote it anew, keys in order
    return start.startswith(b"{") and (is_sorted or has_names(start, "sessionId projectHash"))


def read(source: Source) -> Iterator[Record]:
    """The calls of a session in its order."""
    calls, session, lane = SessionCalls(source, "gemini"), source.label, "main"
    messages: dict[str, tuple[int, dict[str, Any]]] = {}
    title: object = None
    for number, row in rows(source):
        said = table(row.get("$set")) or row
        if "projectHash" in row:
            session = str(row.get("sessionId") or session)
            lane = session if row.get("kind") == "subagent" else "main"
        title = said.get("summary") or title
        listed = said.get("messages")
        if not isinstance(listed, list):
            listed = [said] if "type" in said and "timestamp" in said else []
            if not listed and not said.keys() & {"projectHash", "lastUpdated"} and not row.keys() & set(KEEPS_OTHERS):
                source.fault(number, "no message of a Gemini CLI session; passed over")
        for message in listed:
            if isinstance(message, dict):
                _keep(messages, number, message)
    if lane == "main":
        yield from calls.remark("title", session, title)
    yield from calls.remark("project", session, _project(source))
    for name, (number, message) in messages.items():
        if message.get("type") != "gemini":
            calls.put(plausible(message.get("timestamp")))
        elif not message.get("tokens"):
            calls.n_unbilled += 1
        elif calls.is_new(name):
            ended = plausible(message.get("timestamp"))
            billed = metadata_counts(source, number, table(message["tokens"]), COUNTERS)
            usage = counted_usage(source, number, *billed)
            model = str(message.get("model") or "unknown")
            yield from calls.call(
                number,
                ModelCall(
                    id=name, session=session, provider=PROVIDER, model=model, usage=usage, ended_at=ended, lane=lane
                ),
            )
            if message.get("toolCalls"):
                calls.put(ended)
    calls.finish()


def _project(source: Source) -> str | None:
    """Where the sessions of a folder `chats` were held, as newer versions note beside it."""
    note = Path(source.name).absolute().parent.parent / ".project_root"
    try:
        return note.read_text("utf-8").strip() if note.is_file() else None
    except (OSError, UnicodeDecodeError):
        return None


def _keep(messages: dict[str, tuple[int, dict[str, Any]]], number: int, message: dict[str, Any]) -> None:
    """The latest line of a message, but none without tokens for one that has them."""
    said = f"{message.get('timestamp')} {message.get('type')} {message.get('tokens')}"
    name = recorded_id(message.get("id")) or said
    known = messages.get(name)
    if known is None or message.get("tokens") or not known[1].get("tokens"):
        messages[name] = number, message


def metadata_counts(source: Source, number: int, said: dict[str, Any], names: str) -> tuple[Counts, Reading]:
    """Read the counters of a Gemini `usageMetadata`; one that is left out is 0 there.

    `names` are those of the prompt, the output, the total, the cached tokens, the thoughts and what tools added.

    The total tells whether the prompt holds the cached tokens and the output the thoughts; without a total it is as
    Gemini counts: cached inside, thoughts beside.
    """
    values = [said.get(name) for name in names.split()]
    sent, out, whole = (source.count(number, value) for value in values[:3])
    read, thought, from_tools = (source.count(number, 0 if value is None else value) for value in values[3:])
    if sent is None or out is None or read is None or thought is None or from_tools is None:
        return Counts(), "unsaid"
    rest = None if whole is None else whole - sent - out - from_tools
    is_thought_inside = thought > 0 and rest in (0, read)
    out += 0 if is_thought_inside else thought
    is_beside = read > 0 and rest == read + (0 if is_thought_inside else thought)
    return Counts(sent + from_tools, read, 0, out), "exclusive" if is_beside else "inclusive"
