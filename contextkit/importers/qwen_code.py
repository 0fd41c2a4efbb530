"""Chats of Qwen Code (`~/.qwen/projects/<project>/chats/<session>.jsonl`, sub-agents' beside them): their bills.

Takes a source, gives one call for each line of type `assistant` with `usageMetadata`. Prompts are not given: neither
the system prompt nor the tools stand in the file.

* The counters have Gemini's names whoever was asked: the prompt holds the cached tokens. `totalTokenCount` tells whether
  the thoughts are beside the output, as Gemini counts, or inside it, as OpenAI-compatible hosts do.
* A branch (`/branch`) copies its lines under another session's name, `uuid` and all: they are counted once.
* The last `custom_title` of a session names it.
* Calls that are no turn (titles, summaries) have no line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from contextkit.importers.field_maps import FieldMap, text_at, value_at
from contextkit.importers.format import first_line, has_names
from contextkit.importers.gemini_cli import metadata_counts
from contextkit.importers.rows import table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import Source
from contextkit.importers.transcript import parsed, plausible
from contextkit.ledger.calls import Record, Remark

FIELDS = FieldMap(id="uuid", session="sessionId", lane="agentId", ended_at="timestamp", model="model")
COUNTERS = (
    "promptTokenCount candidatesTokenCount totalTokenCount "
    "cachedContentTokenCount thoughtsTokenCount toolUsePromptTokenCount"
)
_MESSAGE = re.compile(rb'"message"\s*:\s*\{\s*(?:"role"\s*:\s*"\w+"\s*,\s*)?"parts"')


def is_qwen_code(head: bytes) -> bool:
    """Return whether a file that starts like this is a chat.

    >>> is_qwen_code(b'{"uuid":"a","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","parts":[]}}')
    True
    >>> is_qwen_code(b'{"uuid":"a","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":""}}')
    False
    """
    line = first_line(head)
    is_line = line.startswith(b"{") and has_names(line, "uuid parentUuid sessionId")
    return is_line and (_MESSAGE.search(line) is not None or has_names(line, "systemPayload", "usageMetadata"))


def read(source: Source) -> Iterator[Record]:
    """The calls of a chat in its order."""
    calls = SessionCalls(source, "qwen")
    for number, line in source.lines():
        row = parsed(source, number, line)
        if row is None:
            continue
        if "uuid" not in row or not isinstance(row.get("type"), str):
            source.fault(number, "no line of a Qwen Code chat; passed over")
            continue
        yield from _records(calls, number, row)
    calls.finish()


def _records(calls: SessionCalls, number: int, row: dict[str, Any]) -> Iterator[Record]:
    said, session = table(row.get("usageMetadata")), text_at(row, FIELDS.session) or calls.source.label
    name = FIELDS.id_of(row) or f"{calls.source.name}/{number}"
    if row["type"] in ("user", "tool_result"):
        calls.put(plausible(row.get("timestamp")))
    elif row.get("subtype") == "chat_compression":
        calls.remark_next("compaction", "Qwen Code compressed the history")
    elif row.get("subtype") == "custom_title":
        title = value_at(row, "systemPayload.customTitle")
        if isinstance(title, str) and title.strip():
            yield Remark("title", session, title.strip())
    elif row["type"] == "assistant" and not said:
        calls.n_unbilled += 1
    elif row["type"] == "assistant" and calls.is_new(name):
        billed = metadata_counts(calls.source, number, said, COUNTERS)
        call = FIELDS.call(calls.source, number, row, billed=billed, id=name, session=session)
        yield from calls.remark("project", session, row.get("cwd"))
        if call.lane != "main":
            yield from calls.remark("agent", f"{session}/{call.lane}", row.get("agentName"))
        yield from calls.call(number, call)
