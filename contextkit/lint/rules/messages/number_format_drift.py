"""number-format-drift: a number is written in another notation when it is sent again.

## What it does
An argument was `1` and comes back as `1.0`; a float loses a digit, a large integer becomes a float, a `Decimal` or a
NumPy number prints in its own way. The value went through a numeric column, another language, or a parser with other
settings.

## Why it costs you
As a number it is equal, as text it is not, and the cache sees text. The prefix ends at the first call whose arguments
hold such a number, or at the first result, and what follows is billed as new: 1.25 times the input price on
Anthropic. No public report was found, so this is inferred from how the caches compare.

## Example
    arguments = json.loads(call.function.arguments, parse_float=decimal.Decimal)
    row = {"id": call.id, "x": float(arguments["x"])}          # a column of double precision
    ...
    replayed = json.dumps({"x": load(call.id)["x"]})           # the model wrote 1, this says 1.0

## Use instead
Keep the JSON text of arguments and results beside whatever you compute with:

    store.save(call.id, call.function.arguments)               # text
    values = json.loads(call.function.arguments)               # for the tool
    replayed = store.load(call.id)

`context.receive(reply)` keeps arguments in the model's own words; contextkit's canonical form, used for what the
program says, keeps integers beyond 64 bits exact and refuses NaN, naming the path.

## Detected by
- source: `parse_float` or `parse_int` on the arguments or results of a call, unless the values go to functions only.
- requests: values that are numerically equal and differ as text.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- No public report was found; the mechanism is inferred.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.respelled import Respelling, respelling
from contextkit.lint.rules.syntax import keyword, last_name, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk


def _reprinted(step: Step, change: Change) -> Evidence | None:
    if respelling(change) is not Respelling.NUMBERS:
        return None
    return Evidence("values of an earlier item are numerically equal and written otherwise")


# In code
# --------------------------------------------------------------------------------------------------------------------------

_OTHER = frozenset({"Decimal", "str", "float", "Fraction"})
_SAID = re.compile(r"argument|tool_call|tool_input|tool_result", re.IGNORECASE)
_WRITES = re.compile(r"dump|save|store|write|record|insert|append|format|encode")
"""Functions that write what they are given, or keep it."""
_CASTS = frozenset({"str", "repr", "float", "int", "round", "dict", "list", "Decimal"})
"""What gives the value itself."""


def _read_otherwise(call: ast.Call, view: View) -> Iterator[Hit]:
    """Numbers of arguments or results are read as something else than JSON's."""
    if (
        view.dotted(call) != "json.loads"
        or not call.args
        or last_name(keyword(call, "parse_float", "parse_int") or call) not in _OTHER
    ):
        return
    if _SAID.search(words_in(call.args[0])) and not _is_for_tools(call, view):
        yield Hit(call, "numbers are read as another type: written again they have other digits than the model's")


def _is_for_tools(call: ast.Call, view: View) -> bool:
    """Whether all that is made of the values is to call functions with them: `pay(arguments["amount"])`."""
    stored = next((above.targets[0] for above in reversed(view.parents()) if isinstance(above, ast.Assign)), None)
    function = view.function()
    if not isinstance(stored, ast.Name) or function is None:
        return False
    uses = [node for node in view.nodes(function, ast.Name) if node.id == stored.id and isinstance(node.ctx, ast.Load)]
    takers = [_taker(use, function, view) for use in uses]
    return bool(takers) and not any(name is None or _WRITES.search(name) for name in takers)


def _taker(use: ast.Name, function: ast.AST, view: View) -> str | None:
    """The function that a value is given to, innermost, casts left out; None where it stays."""
    around = [
        call
        for call in view.nodes(function, ast.Call)
        if call.func is not use and any(part is use for part in walk(call))
    ]
    return next((name for call in reversed(around) if (name := last_name(call.func)) not in _CASTS), None)


HAZARD = Hazard(
    "CKM30",
    "number-format-drift",
    "I",
    "note",
    source=(Pattern((ast.Call,), _read_otherwise, ("parse_float", "parse_int"), is_near=True),),
    requests=(RequestRule("change", _reprinted, 11),),
    confirmed_by=("messages_changed", "input_changed"),
)
