"""One thing that was said or done, frozen when it was written.

Takes JSON values, gives entries whose bytes never change again. Knows nothing of providers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["opened", "user", "assistant", "result", "begun", "notice", "phase", "tools", "switch", "epoch"]
"""What an entry is; the table of their bodies stands in `docs/architecture.md`.

opened      {"version", "templates": {wire: version}, "system": [part…], "tools": [definition…]}
            of a sub-agent also "spawned_by": {…} (`context/origin.py`); or, where a branch leaves its parent,
            {"parent": {"path", "sequence", "digest"}}; in Postgres the path is a session's name
user        {"content": [part…], "role"?: "system"}     a system message between turns names its role assistant
{"after": sequence, "native": {"wire", "model", "body": [json…]}, "text", "calls": [{"id", "name", "arguments"}…],
"stop",
             "stored"?: {"id", "model", "conversation"?}, "withheld"?: [id…]}     where the server keeps it, and can go
             on from it;
            earlier reasoning that it says it left out
result      {"call_id", "name", "content": [part…], "is_error", "references"?: [reference…], "form"?: name}     parts
that stand in files
            are previews here, and `references` bring them back; `form` says how its text is told (`variation.py`)
begun       {"call_id"}                     a side effect was started (a crash may follow); renders nothing notice
{"text", "event"?: {"type", …}, "until"?: "reply"}     said by the program, in band; `event` where something changed
            (`change.py`) or is said again; what holds until the reply is not part of the history
phase       {"name", "text", "removed": [name…], "added": [name…], "is_told"}     what may be called from here on:
`text` tells it; so do
            `removed` and `added`, the tools withdrawn and given back, where a provider takes them (all of it, if
            `is_told`)
tools       {"definitions": [definition…], "text"}     tools that join behind the head; `text` tells how they are called
in words switch      {"to": {"wire", "model"}, "from": {"wire", "model"}, "rewrites_tokens", "templates"}     another
model answers from here on epoch       {"reason", "summary": [part…], "keep_from": sequence | null, "rewrites_tokens",
"templates",
             "system"?: [part…], "tools"?: [definition…], "replaced"?: {sequence: {"content", "references"}}}
part        {"type": "text", "text"} | {"type": "image"|"document", "media_type", "data"} | {… "url"} | {"type":
"native", "wire", "block"} reference   {"digest", "n_bytes", "kind", "part", "form": {…}, "field", "source"?} definition
{"name", "description", "parameters", "format"?} | {"native": {"wire", "block"}, "instead"?: definition} """


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log."""

    sequence: int
    """Place in the log, from 0."""
    kind: Kind
    """What it is."""
    body: bytes
    """Canonical JSON of what was said, serialised once."""
    at: float
    """When it was written, seconds since 1970."""
    digest: bytes
    """Hash over the entry before, the kind, the time and the body: 16 bytes."""


@dataclass(frozen=True, slots=True)
class Native:
    """A provider's own words, kept as they came."""

    wire: str
    """Whose words: `anthropic_messages`, `openai_chat`, `openai_responses`."""
    model: str
    """The model that said them."""
    body: bytes
    """JSON array in the wire's normal form: content blocks, one message, or output items."""
