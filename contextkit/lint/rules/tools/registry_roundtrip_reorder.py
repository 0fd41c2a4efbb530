"""registry-roundtrip-reorder: a registry returns a tool's JSON with its keys in another order.

## What it does
Definitions or prompts live in a database column or a registry that stores JSON as a value rather than as text.
PostgreSQL's `jsonb`, for one, does not keep the order in which keys were written. What is fetched and sent is equal
as data and different as bytes.

## Why it costs you
The first fetch after a deploy, or a mixture of fetched and locally built definitions, gives a second version of
`tools` that shares no prefix with the first: tools, system and messages are written again, and workers that read
different versions never share an entry. No diff of parsed objects shows a difference.

## Example
    rows = connection.execute("select definition from tools order by name").fetchall()
    tools = [row[0] for row in rows]                 # jsonb: the keys come back in the database's order
    client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Store the text, or bring it into one form after loading, and pin its digest with the version you deploy:

    tools = [json.loads(json.dumps(row[0], sort_keys=True)) for row in rows]
    assert digest(tools) == PINNED, "the registry returned other bytes than were released"

contextkit seals raw definitions as canonical JSON (`Tool.raw`), so the order they arrive in has no effect.

## Detected by
- source: rows of a database (`fetchall`, `fetchmany`) passed on as tools or schemas without being put into one form.
- requests: as for a drift of keys, and on one side all keys stand by length, as a JSON column gives them; of a single
  definition only behind a pause.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/Arize-ai/phoenix/issues/7254
"""

from __future__ import annotations

from collections.abc import Iterator

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.shapes import is_same_value, paired
from contextkit.lint.source.rule import Flow
from contextkit.prompt.block import Block

_RESTART_SECONDS = 300
_WRAPS = ("function", "toolSpec")
"""Keys that a definition stands under: a frame in a frame."""


def _stored(step: Step, change: Change) -> Evidence | None:
    """All definitions of a change came through a store that keeps keys by length and then by bytes, as `jsonb` does, or
    went back.
    """
    pairs = paired(change) if change.level == "tools" else []
    if not pairs or not all(was.role == now.role and is_same_value(was, now) for was, now in pairs):
        return None
    is_now, is_was = (all(_is_stored(pair[side]) for pair in pairs) for side in (1, 0))
    if is_now == is_was or (len(pairs) == 1 and step.gap_seconds < _RESTART_SECONDS):
        return None
    side = "now" if is_now else "before"
    return Evidence(
        f"{len(pairs)} definitions have their keys by length {side}, as a database's JSON column gives them back"
    )


def _is_stored(block: Block) -> bool:
    """Whether every object's keys are by length and then by bytes, in at least one of them otherwise than by the
    alphabet.
    """
    orders = [list(one) for one in _objects(block.value)]
    by_length = [sorted(keys, key=lambda key: (len(key.encode()), key.encode())) for keys in orders]
    return orders == by_length and any(len(keys) > 2 and keys != sorted(keys) for keys in orders)


def _objects(value: Json, is_frame: bool = True) -> Iterator[dict[str, Json]]:
    """Objects of more than one key, the definition's own left out."""
    if isinstance(value, dict):
        if not is_frame and len(value) > 1:
            yield value
        for key, item in value.items():
            yield from _objects(item, is_frame and key in _WRAPS)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item, False)


HAZARD = Hazard(
    "CKT12",
    "registry-roundtrip-reorder",
    "B",
    "warning",
    source=(
        Flow(
            ("rows",),
            ("tools", "tool", "schema"),
            "{source} comes from a database, which may give it back in another order",
        ),
    ),
    requests=(RequestRule("change", _stored, 12),),
    confirmed_by=("tools_changed",),
)
