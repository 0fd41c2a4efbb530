"""system-prompt-rebuilt: the stored system prompt is thrown away and built anew on resume, reload or a change of model.

## What it does
A session stores its messages but not its prompt, or clears the stored one when it is resumed, the configuration is
reloaded or the model is switched. The builder then runs again, on a newer version of the code, with other settings,
in another folder, in a process where a set of names has another order.

## Why it costs you
The first request after a restart is usually the dearest, since it carries the whole history; with another system text
not even a warm entry helps. On Anthropic only the tools are left to read. A fleet that restarts on deploy pays it for
all open sessions in the same minutes.

## Example
    def resume(path):
        session = Session.load(path)
        session.system = build_system_prompt(settings, tools, Path.cwd())
        return session

    client.messages.create(model=MODEL, max_tokens=4096, system=session.system, messages=session.messages)

## Use instead
The prompt is part of the session. Store what was sent, load it as it is, and build only for new sessions:

    session = Session.load(path)
    system = session.system                # the text of the first request, byte for byte
    if digest(system) != session.system_digest:
        raise RuntimeError("the stored system prompt was altered")

`Context.open(folder, provider)` does this: without `system` it takes the stored bytes, with a different one it raises
`HeadChanged` and names the first difference; `allow_new_head=True` or `context.resystem(...)` accepts it as a new
epoch.

## Detected by
- source: a function that builds the system prompt, called on the way of resume, reload or switch of model, unless that is done only
  where none is stored; the items of a set,
  joined into its text, which come in another order in each process.
- requests: the system text differs in the call that changes the model; a request that names the response it goes on
  from has no `instructions`, which are not carried over; by its shape alone, for no reason that a narrower hazard knows.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/NousResearch/hermes-agent/issues/100336
- https://github.com/earendil-works/pi/issues/2131
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import edited
from contextkit.lint.rules.history import is_switch, model_of
from contextkit.lint.rules.syntax import last_name, words_in
from contextkit.lint.source.rule import Flow, Hit, Pattern, View
from contextkit.providers.server_state import named_in


def _at_switch(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not is_switch(step):
        return None
    return Evidence(f"system text changed with the model, from {model_of(step.before)} to {model_of(step.after)}")


def _left_out(step: Step, change: Change) -> Evidence | None:
    """`previous_response_id` without `instructions` (openai 3.54.0, types/responses/response_create_params.py: not
    carried over).
    """
    if change.level != "system" or change.now or named_in(step.after.params) is None:
        return None
    return Evidence(
        "the request goes on from a response and has no instructions: those that response was asked with are not carried over"
    )


def _changed(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not change.is_first:
        return None
    return Evidence(
        f"system text changed, {int(100 * edited(change).share)} % of it stayed; only its shape is known, not what rebuilt it"
    )


# In code
# --------------------------------------------------------------------------------------------------------------------------

_BUILDS = re.compile(
    r"_*(?:re)?(?:build|make|render|create|generate|compose|assemble|construct)_(?:\w+_)?system_(?:prompt|message|instructions?|text)$"
)
_PATHS = re.compile(
    r"(?:^|_)(?:resume|reload|restore|rehydrate|reopen|switch_model|set_model|change_model|load_session|continue_session)"
)
_STORED = re.compile(r"system|prompt|instruction", re.IGNORECASE)
_WHERE_MISSING = re.compile(r"_or_(?:re)?(?:build|make|render|create|generate|compose|assemble|default|new)")
"""A function of such a name builds only where nothing is stored."""


def _rebuilt(call: ast.Call, view: View) -> Iterator[Hit]:
    function = view.function()
    name = last_name(call.func)
    if function is None or not _PATHS.search(function.name) or _WHERE_MISSING.search(function.name):
        return
    if _BUILDS.match(name) and not _is_where_missing(call, view):
        yield Hit(
            call, f"{name}() makes the system prompt anew in {function.name}(): the session goes on under another one"
        )


def _is_where_missing(call: ast.Call, view: View) -> bool:
    """Whether it is made only where none is stored: `stored or build()`, `if not stored:`, `stored if stored else
    build()`.
    """
    around = view.parents()
    for node, inside in pairwise((*around, call)):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and inside is not node.values[0]:
            return True
        if isinstance(node, ast.If | ast.IfExp) and inside is not node.test and _STORED.search(words_in(node.test)):
            is_otherwise = inside is node.orelse if isinstance(node, ast.IfExp) else inside in node.orelse
            if _says_missing(node.test) != is_otherwise:
                return True
    return False


def _says_missing(test: ast.expr) -> bool:
    """`not x`, `x is None`, `x == ""`."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    is_alike = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq)
    return is_alike and isinstance(test, ast.Compare) and not getattr(test.comparators[0], "value", "x")


HAZARD = Hazard(
    "CKS10",
    "system-prompt-rebuilt",
    "A",
    "warning",
    source=(
        Pattern(
            (ast.Call,),
            _rebuilt,
            ("system_prompt", "system_message", "system_instruction", "system_text"),
            is_near=True,
        ),
        Flow(("jumbled",), ("system",), "{source} has its items in another order in each process and reaches {sink}"),
    ),
    requests=(
        RequestRule("change", _at_switch, 50),
        RequestRule("change", _left_out, 20),
        RequestRule("change", _changed, 90),
    ),
    confirmed_by=("system_changed", "input_changed"),
)
