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
- source: a schema or its `required` made from a set or a comprehension over one; `json.dumps` without sorted keys, of a mapping that
  others fill, in a definition.
- requests: definitions that are equal but for the order of keys, or of required names.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/maximhq/bifrost/issues/2348
- https://github.com/esengine/DeepSeek-Reasonix/issues/2189
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import orjson

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import field, last_name
from contextkit.lint.rules.shapes import is_same_value, paired
from contextkit.lint.source.rule import SORT_ITEMS, SORT_KEYS, Flow, Hit, Pattern, View
from contextkit.prompt.block import Block

_MAKES = ("list", "tuple", "set", "frozenset")


def _respelled(step: Step, change: Change) -> Evidence | None:
    pairs = paired(change) if change.level == "tools" else []
    if not pairs or not all(was.role == now.role and is_same_schema(was, now) for was, now in pairs):
        return None
    return Evidence(
        f"{len(pairs)} definitions say the same with keys, or required names, in another order: {pairs[0][1].role}"
    )


def is_same_schema(was: Block, now: Block) -> bool:
    """Whether two definitions are the same JSON but for the order of keys and of `required`."""
    return is_same_value(was, now) or _settled(orjson.loads(was.body)) == _settled(orjson.loads(now.body))


def _settled(value: Json, key: str = "") -> Json:
    if isinstance(value, dict):
        return {name: _settled(item, name) for name, item in value.items()}
    if isinstance(value, list):
        is_set = key == "required" and all(isinstance(item, str) for item in value)
        return sorted(value) if is_set else [_settled(item) for item in value]
    return value


def _required(node: ast.Dict, view: View) -> Iterator[Hit]:
    """`{"properties": …, "required": list(set(…))}`."""
    value = field(node, "required")
    if value is None or field(node, "properties") is None or not _is_set(value):
        return
    yield Hit(value, "`required` takes the order of a set, which differs from process to process")


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and last_name(node.func) in _MAKES:
        return last_name(node.func) in _MAKES[2:] or (bool(node.args) and _is_set(node.args[0]))
    return isinstance(node, ast.Set | ast.SetComp)


HAZARD = Hazard(
    "CKT07",
    "schema-key-order-drift",
    "A",
    "error",
    source=(
        Flow(
            ("unordered", "paths"),
            ("schema",),
            "the schema takes the order of {source}, which differs from process to process",
            mends=(SORT_ITEMS,),
        ),
        Flow(
            ("unsorted_json",),
            ("tool", "schema", "tools"),
            "{source} keeps the order in which the keys came, and reaches {sink}",
            mends=(SORT_KEYS,),
        ),
        Pattern((ast.Dict,), _required, ("required",), is_near=True, also=(("properties",),), names=("required",)),
    ),
    requests=(RequestRule("change", _respelled, 15),),
    confirmed_by=("tools_changed",),
)
