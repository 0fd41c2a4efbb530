"""tool-call-re-rendered: a server parses a tool call to JSON and its template prints it again in other bytes.

## What it does
The model writes a call in its own syntax. The server turns that into `tool_calls` of the API; on the next request the
chat template prints it back from the parsed form: other blanks, another order of keys, escaped characters, numbers in
another notation.

## Why it costs you
The cache of the engine holds what the model wrote; the next prompt holds what the template prints. They part at the
first tool call, and stay apart there for the whole session, however long it grows: every step prefills all of it but
the beginning. On a local machine that is the difference between an instant reply and seconds to minutes of prefill.

## Example
    reply = client.chat.completions.create(model="local", messages=messages, tools=TOOLS)
    messages.append(reply.choices[0].message.model_dump(exclude_none=True))
    # the model wrote {"path":"a.py","line":3}; the template prints {"path": "a.py", "line": 3}

## Use instead
Keep the span the model emitted and put it back verbatim: an engine or proxy that stores it by the id of the call, a
template that prints `arguments` as the string it is given, or a completion endpoint where you hold the text yourself:

    prompt += raw_output + render_result(result)         # nothing earlier is rendered a second time
    client.completions.create(model="local", prompt=prompt)

Compare two rendered prompts (`/apply-template` in llama.cpp, `/v1/chat/completions/render` in vLLM) once per model.
contextkit keeps the arguments as received; what a template makes of them is out of its hands.

## Detected by
- source: not visible; the cause is a parser and a template in the server.
- requests: what is read stops at the first call of a tool for the rest of the session, while the bodies only grow.
- guard: not visible; it shows in what the engine reports as cached.
- provider: silent; engines report a number of cached tokens and no cause.

## References
- https://github.com/Luce-Org/lucebox/issues/151
- https://github.com/youssofal/MTPLX/issues/121
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.history import size
from contextkit.lint.rules.openings import Calls

_CALLS = 4
"""Calls in a row that read up to the same place."""
_GROWTH, _NEAR, _BLOCK = 1.2, 0.12, 128
"""How much their prompts grow; how near to the first call of a tool reading stops, as a share; tokens of a block of an
engine's cache."""


def _stuck(calls: Calls) -> Iterator[Evidence]:
    """The call from which on it is plain that a conversation is read up to its first call of a tool, and no further."""
    for mine in calls.conversations.values():
        billed = [sent for sent in mine if sent.usage is not None and sent.row.cache != "breakpoints"]
        runs = (billed[i : i + _CALLS] for i in range(len(billed) - _CALLS + 1))
        found = next((run[-1] for run in runs if _is_stuck(run)), None)
        if found is not None:
            text = f"{_CALLS} calls in a row read {_read(found):,} tokens, up to the first call of a tool, while their bodies only grew"
            yield Evidence(text, found.blocks[_first_call(found)].path, sent=found)


def _is_stuck(run: Sequence[RecordedCall]) -> bool:
    reads, sizes = [_read(sent) for sent in run], [size(sent.blocks) for sent in run]
    is_same = min(reads) > 0 and max(reads) - min(reads) <= _BLOCK and sizes[-1] >= _GROWTH * sizes[0]
    return is_same and all(_goes_on(a, b) for a, b in pairwise(run)) and all(map(_stops_there, run))


def _read(sent: RecordedCall) -> int:
    return (sent.usage.read or 0) if sent.usage else 0


def _goes_on(before: RecordedCall, after: RecordedCall) -> bool:
    return [block.body for block in before.blocks] == [block.body for block in after.blocks[: len(before.blocks)]]


def _stops_there(sent: RecordedCall) -> bool:
    """Whether what was read is about what stands in front of the first call."""
    usage, first = sent.usage, _first_call(sent)
    billed = sum(n or 0 for n in (usage.fresh, usage.read, usage.write_5m, usage.write_1h)) if usage else 0
    share = size(sent.blocks[:first]) / max(1, size(sent.blocks)) if first >= 0 else -1.0
    return billed > 0 and share > 0 and abs(_read(sent) / billed - share) <= _NEAR


def _first_call(sent: RecordedCall) -> int:
    """Index of its block, -1 where no tool was called."""
    return next((i for i, block in enumerate(sent.blocks) if block.type == "call"), -1)


HAZARD = Hazard("CKM17", "tool-call-re-rendered", "A", "warning", requests=(RequestRule("session", _stuck),))
