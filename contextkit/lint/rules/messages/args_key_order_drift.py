"""args-key-order-drift: the arguments of an earlier call are written again with other keys first, or other spacing.

## What it does
Arguments come as JSON. They are parsed, stored as a value (a dict, a `jsonb` column, a map of another language) and
serialised for the next request. What comes out means the same, in another order of keys or with other blanks than the
model wrote. The same happens to state, settings or a profile that is dumped into the prompt: the keys stand in the order
in which somebody filled the mapping, and after a restart somebody fills it in another.

## Why it costs you
The prompt that was cached holds the model's own text of the call. A replay that differs breaks the prefix at the
first call with two arguments. Anthropic's troubleshooting page names the order of keys within `tool_use.input` as a
thing to keep stable; on OpenAI `arguments` is a string, and a single blank counts.

## Example
    arguments = json.loads(call.function.arguments)
    store.save(call.id, arguments)                           # a jsonb column
    ...
    replayed = {"name": name, "arguments": json.dumps(store.load(call.id))}
    messages.append({"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": replayed}]})

## Use instead
Parse for yourself, keep the text for the history:

    store.save(call.id, call.function.arguments)             # the string, as received
    replayed = {"name": name, "arguments": store.load(call.id)}

What you write yourself, write with sorted keys; `contextkit lint --fix` adds them:

    system = INSTRUCTIONS + json.dumps(profile, sort_keys=True)

For Claude, store the serialised assistant message as one string or blob. `context.receive(reply)` keeps the order of
keys in arguments, and the log stores bytes, in a file or as `bytea`, not as `jsonb`.

## Detected by
- source: arguments that are loaded from JSON and dumped again on their way into the history, or read from rows;
  `json.dumps` without sorted keys, of a mapping that others fill, that reaches the prompt. A mapping written out in the
  code has the order of its author and is not reported.
- requests: canonical JSON is equal and bytes differ within a call's input or arguments.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/stanfordnlp/dspy/issues/10227
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#troubleshooting-common-issues
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.respelled import Respelling, respelling
from contextkit.lint.rules.syntax import constant_keys, keyword, last_name
from contextkit.lint.source.rule import SORT_KEYS, Flow, Hit, Pattern, View


def _respelled(step: Step, change: Change) -> Evidence | None:
    if respelling(change) is not Respelling.ORDER:
        return None
    what = "arguments of an earlier call" if any(block.type == "call" for block in change.was) else "an earlier item"
    return Evidence(f"JSON in the {what} says the same with other keys first or other blanks")


# In code
# --------------------------------------------------------------------------------------------------------------------------


def _dumped_again(block: ast.Dict, view: View) -> Iterator[Hit]:
    """Arguments are parsed and written anew, or come from a store that keeps no order.

    Sorted ones are the same each time.
    """
    given = constant_keys(block).get("arguments")
    if (
        not isinstance(given, ast.Call)
        or view.dotted(given) not in ("json.dumps", "orjson.dumps", "ujson.dumps")
        or not given.args
    ):
        return
    value, order = given.args[0], keyword(given, "sort_keys")
    is_parsed = isinstance(value, ast.Call) and last_name(value.func) == "loads"
    is_sorted = isinstance(order, ast.Constant) and order.value is True
    if not is_sorted and (is_parsed or "rows" in view.kinds(value)):
        yield Hit(
            given,
            "arguments are written anew from their parsed form: other keys first, other blanks than the model wrote",
        )


HAZARD = Hazard(
    "CKM14",
    "args-key-order-drift",
    "A",
    "error",
    source=(
        Flow(
            ("unsorted_json",),
            ("system", "front"),
            "{source} keeps the order in which the keys came, and reaches {sink}",
            mends=(SORT_KEYS,),
        ),
        Pattern((ast.Dict,), _dumped_again, ("arguments",), is_near=True, names=("arguments",)),
    ),
    requests=(RequestRule("change", _respelled, 12),),
    confirmed_by=("messages_changed", "input_changed"),
)
