"""schema-key-order-drift: a tool's schema is written with its keys or its required names in another order.

## What it does
Properties, `required` or `$defs` come out in the order of a map, a set, or a model class that has been rebuilt. As
data the schema is equal; as text it is not. Go maps, Python sets of strings under another hash seed, and schemas
generated afresh per process all do this.

## Why it costs you
A prefix cache compares what was rendered, not what it means. The first byte of a definition that differs ends the
reusable prefix within the tools, and system and messages go with it. Nothing in a log of parsed objects shows why,
since comparing parsed schemas says that they are equal.

## Example
    schema = {
        "type": "object",
        "properties": {field.name: field.schema for field in set(fields)},
        "required": list({field.name for field in fields if field.required}),
    }
    tools = [{"name": "lookup", "description": "Look up a record.", "input_schema": schema}]

## Use instead
Write schemas through one serialiser that sorts object keys and arrays that mean a set, such as `required`; leave
`enum`, `oneOf` and `prefixItems` in the order of the author:

    names = sorted(field.name for field in fields)
    schema = {"type": "object", "properties": {name: schemas[name] for name in names}, "required": [n for n in names if n in required]}

`@contextkit.tool` derives the schema from the signature, in its order, and seals it as canonical JSON; `Toolbox` then
holds those bytes.

## Detected by
- source: a schema or its `required` made from a set or a comprehension over one, or dumped without a fixed order of
  keys.
- requests: a definition whose canonical JSON is equal and whose bytes differ.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/maximhq/bifrost/issues/2348
- https://github.com/esengine/DeepSeek-Reasonix/issues/2189
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT07", "schema-key-order-drift", "A", "error", confirmed_by=("tools_changed",))
