"""marker-lost-in-translation: an adapter or gateway rebuilds the blocks and leaves the markers out.

## What it does
Finds markers that were set and do not arrive: a layer turned a list of blocks into a plain string, copied only the fields it knows, or
did not recognise the model behind an ARN.

## Why it costs you
Without the marker nothing is written, so an explicit cache sees a prompt that is fresh every time, at ten to twenty times the price of
a read on Claude. The program's own code looks right; only the bytes on the wire show it. Reported for several gateways, for Bedrock
model ids that an adapter did not know, and for system messages in mid-conversation that were folded into text.

## Example
    def to_wire(block):
        return {"type": block["type"], "text": block["text"]}

## Use instead
Copy a block whole and change what must change. A request of contextkit is bytes already, and `request.send` hands them to the client
unaltered:

    def to_wire(block):
        return {**block, "type": WIRE_TYPES[block["type"]]}
    request = context.request()
    request.send(client)

## Detected by
- source: a function that rebuilds content blocks from fields it names, in a file that marks blocks elsewhere.
- requests: markers that vanish between two calls of one session, all of them or those of the messages.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent; reads and writes are 0.

## References
- https://github.com/maximhq/bifrost/issues/7360
- https://github.com/maximhq/bifrost/issues/6933
- https://github.com/strands-agents/harness-sdk/issues/2611
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import field
from contextkit.lint.rules.marking import constant
from contextkit.lint.rules.marks import Mark, estimated, has_markers, in_messages, marks_of, n_tokens, reach
from contextkit.lint.source.rule import Hit, Pattern, View

_BLOCK_KEYS = ("type", "text")
_LEAST_TOKENS = 100


def _rebuilt(node: ast.Dict, view: View) -> Iterator[Hit]:
    """`{"type": block["type"], "text": block["text"]}` in a file that marks blocks elsewhere."""
    if not len(_BLOCK_KEYS) <= len(node.keys) <= 4 or None in node.keys:
        return
    copied = [value for key, value in zip(node.keys, node.values, strict=True) if _is_copied(constant(key), value)]
    if len(copied) != len(node.keys) or not all(field(node, name) is not None for name in _BLOCK_KEYS):
        return
    function = view.function()
    if (
        len({ast.unparse(_holder(value)) for value in copied}) == 1
        and function is not None
        and b"cache_control" not in _text(function)
    ):
        yield Hit(node, "a block is rebuilt from fields it names, so a `cache_control` it carried is left out")


def _is_copied(key: object, value: ast.expr) -> bool:
    """Whether a key takes the value the same key has elsewhere."""
    if isinstance(value, ast.Subscript):
        return constant(value.slice) == key
    if (
        not isinstance(value, ast.Call)
        or not isinstance(value.func, ast.Attribute)
        or value.func.attr != "get"
        or not value.args
    ):
        return False
    return constant(value.args[0]) == key and (key != "type" or len(value.args) == 1)


def _holder(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.value
    return value.value if isinstance(value, ast.Subscript) else value


def _text(function: ast.AST) -> bytes:
    return ast.unparse(function).encode("utf-8", "replace")


def _vanished(step: Step) -> Evidence | None:
    if not has_markers(step.after):
        return None
    before, after = marks_of(step.before), marks_of(step.after)
    if not before or estimated(step.after) < 1.2 * step.after.row.min_tokens:
        return None
    if not after:
        return _gone(f"the call before carried {len(before)} markers, this one carries none", before[-1])
    seen, had = reach(step), [mark for mark in before if in_messages(step.before, mark)]
    if not had or any(in_messages(step.after, mark) for mark in after) or seen.best >= seen.last:
        return None
    lost = n_tokens(step.after, seen.best + 1, seen.last + 1)
    return (
        _gone(f"the markers of the messages are gone: {lost:,} tokens cannot be read", had[-1])
        if lost >= _LEAST_TOKENS
        else None
    )


def _gone(message: str, mark: Mark) -> Evidence:
    return Evidence(message, path=mark.path, was=mark.path)


HAZARD = Hazard(
    "CKB10",
    "marker-lost-in-translation",
    "A",
    "error",
    source=(Pattern((ast.Dict,), _rebuilt, ("cache_control",), also=(("text",),)),),
    requests=(RequestRule("step", _vanished),),
)
