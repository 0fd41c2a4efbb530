"""switch-dependent-history-rewrite: a change of model rewrites the history for one turn, and the next turn restores it.

## What it does
When the model differs from that of the last turn, the replay code converts or strips what the new one may not
understand: reasoning, tool ids, server-tool blocks. The condition holds only for the first call after the switch; the
second sends the original history again.

## Why it costs you
The switch itself costs one cold start, since caches are kept per model. The rewrite costs a second one: what the
first call wrote differs from what the second sends, so its entries (1.25 times the input price on Anthropic) are
never read. On models that bind thinking to its prefix the blocks made on the converted history do not fit the
restored one, which is a 400 or lost reasoning.

## Example
    def replay(history, model, last_model):
        if model != last_model:
            history = [strip_reasoning(message) for message in history]     # a copy, for this call only
        return client.messages.create(model=model, max_tokens=4096, messages=history)

## Use instead
Write the conversion down, and apply it from there on:

    if model != session.model:
        session.history = [strip_reasoning(message) for message in session.history]
        session.model = model                     # both kept together: the next call sends the same
    client.messages.create(model=session.model, max_tokens=4096, messages=session.history)

A contextkit log keeps the reply as received beside its text and calls; what another wire gets of it is a fixed
projection, the same in every request.

## Detected by
- source: a condition on a changed model that strips or converts messages on their way out.
- requests: the history differs in the call that changes the model, and once more in the next one with the model
  unchanged.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI), at the second change; at the first the model
  comes before it.

## References
- https://github.com/openclaw/openclaw/issues/115272
- https://github.com/anomalyco/opencode/issues/32604
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import in_any_case
from contextkit.lint.rules.history import come, gone, is_restored, is_switch, model_of
from contextkit.lint.rules.syntax import words_in
from contextkit.lint.source.rule import Hit, Pattern, View

_CONVERTED = frozenset({"thinking", "server_tool_use", "web_search_tool_result", "code_execution_tool_result"})


def _at_switch(step: Step, change: Change) -> Evidence | None:
    """Reasoning or server tools leave the history, or come into it, in the call that changes the model."""
    touched = [block.type in _CONVERTED for block in (*gone(change), *come(change))]
    if change.level != "messages" or not is_switch(step) or not any(touched):
        return None
    return Evidence(
        f"the history was converted for the change of model from {model_of(step.before)} to {model_of(step.after)}"
    )


def _restored(step: Step, change: Change) -> Evidence | None:
    """The call behind the switch sends again what stood there before it."""
    was_switch = len(step.earlier) > 1 and model_of(step.earlier[-2]) != model_of(step.before)
    if change.level != "messages" or is_switch(step) or not (was_switch and is_restored(step, change)):
        return None
    return Evidence("the history was converted for one call at a change of model and is now as before it")


# In code
# --------------------------------------------------------------------------------------------------------------------------

_REWRITES = re.compile(
    r"strip|convert|drop|clean|sanitiz|remove|normali[sz]e|downgrade|flatten|transform", re.IGNORECASE
)


def _for_this_call(branch: ast.If, view: View) -> Iterator[Hit]:
    """A history that is converted where the model is another one than last time."""
    test = branch.test
    is_switch = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq)
    sides = [words_in(side) for side in (test.left, *test.comparators)] if isinstance(test, ast.Compare) else []
    if not is_switch or not all("model" in side.lower() or "provider" in side.lower() for side in sides):
        return
    for node in branch.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        is_local = isinstance(target, ast.Name) and view.is_history(target)
        if is_local and isinstance(node, ast.Assign) and _REWRITES.search(words_in(node.value)):
            yield Hit(
                node,
                "the history is converted for the one call in which the model changes, and sent as it was in the next",
            )


HAZARD = Hazard(
    "CKM03",
    "switch-dependent-history-rewrite",
    "A",
    "warning",
    source=(Pattern((ast.If,), _for_this_call, (" != ",), tested=(("!=",), in_any_case("model", "provider"))),),
    requests=(RequestRule("change", _at_switch, 4), RequestRule("change", _restored, 4)),
    confirmed_by=("messages_changed", "input_changed"),
)
