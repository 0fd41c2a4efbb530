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
    row = connection.execute("select definition from tools where name = %s", (name,)).fetchone()
    tools = [row.definition]                         # jsonb: the keys come back in the database's order
    client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Store the text, or bring it into one form after loading, and pin its digest with the version you deploy:

    tools = [json.loads(json.dumps(row.definition, sort_keys=True))]
    assert digest(tools) == PINNED, "the registry returned other bytes than were released"

contextkit seals raw definitions as canonical JSON (`Tool.raw`), so the order they arrive in has no effect.

## Detected by
- source: rows of a database or a registry's JSON passed on as tools, without being put into one form.
- requests: as for a drift of keys, equal canonical JSON and other bytes; that a fetch or a deploy lies between is for
  you to see.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/Arize-ai/phoenix/issues/7254
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT12", "registry-roundtrip-reorder", "B", "warning", confirmed_by=("tools_changed",))
