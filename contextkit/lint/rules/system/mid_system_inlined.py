"""mid-system-inlined: an adapter moves a system message from the middle of the conversation into the system prompt.

## What it does
The history holds a system message between turns: a reminder, a change of mode. An adapter for another wire collects
all messages of role `system`, joins them and sends them on top; or it turns them into something else and loses their
cache markers.

## Why it costs you
The top-level system text grows with each reminder, so a message that was meant to be appended rewrites the front: on
Anthropic system and messages are computed again each time. A marker that is lost on the way means that nothing is
written at that place, without any error.

## Example
    def to_anthropic(messages):
        system = " ".join(m["content"] for m in messages if m["role"] == "system")
        rest = [m for m in messages if m["role"] != "system"]
        return {"system": system, "messages": rest}

    client.messages.create(model=MODEL, max_tokens=2048, **to_anthropic(history))

## Use instead
Only what stands before the first user turn is the system prompt; the rest keeps its place. Newer Claude models take
`{"role": "system"}` within `messages` behind a user turn; elsewhere the reminder becomes user text:

    head = list(itertools.takewhile(lambda m: m["role"] == "system", messages))
    rest = [as_user(m) if m["role"] == "system" else m for m in messages[len(head):]]

contextkit keeps the place: `context.notice(text)` is written where it is said, and `Context.from_messages` adopts
system messages between turns as such.

## Detected by
- source: messages filtered by the role `system` and joined into the system text.
- requests: the top-level system text grows by a reminder, or by words that stood in a message; by its shape alone, it
  grows at its end.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/maximhq/bifrost/issues/5929
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.history import messages
from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction, last_name, messages_of
from contextkit.lint.rules.wording import edited
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax.pieces import walk
from contextkit.lint.trace.blocks import text_of
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step

_ASIDE = re.compile(r"(?:^|_)(?:state|evidence|judge\w*|classif\w*|summar\w*|titles?)$")
"""Functions that make what is asked about a conversation, outside of it."""
_ENDING = 2
"""Characters, such as line ends, that may follow what was put in last."""


def _reminder(step: Step, change: Change) -> Evidence | None:
    """A reminder, or words that stood in a message, arrive in the system text."""
    if change.level != "system":
        return None
    found = edited(change)
    piece = found.span[1].strip() if found.is_growth else ""
    is_hoisted = len(piece) >= 20 and any(piece in text_of(block) for block in messages(step.before))
    is_named = bool(piece or not found.span[1].strip()) and found.is_about("reminder")
    if not is_hoisted and not is_named:
        return None
    return Evidence(f"system text {'grew' if piece else 'shrank'} by a piece that belongs between messages")


def _grown(step: Step, change: Change) -> Evidence | None:
    """Shape only: something came behind the system text, nothing else changed."""
    if change.level != "system" or not change.is_first:
        return None
    found = edited(change)
    if not found.is_growth or found.trail > _ENDING or not (found.before.strip() or change.at):
        return None
    return Evidence(f"system text grew by {len(found.span[1]):,} characters at its end, as when a message of the role system is hoisted")


# In code --------------------------------------------------------------------------------------------------------------------------

_IN_TESTS: tuple[str, ...] = tuple(f'{equals}"system"' for equals in ("==", "== ")) + tuple(f'"system"{equals}' for equals in ("==", " =="))
_IN_TESTS += tuple(text.replace('"', "'") for text in _IN_TESTS)
"""One of these stands where a role is compared with this one."""


def _hoisted(function: AnyFunction, view: View) -> Iterator[Hit]:
    """All messages of the role system, joined into one text."""
    names = {} if _ASIDE.search(function.name) else messages_of(function, view)
    for call in view.nodes(function, ast.Call) if names else ():
        if last_name(call.func) == "join" and any(_is_system(test, names) for test in _tests(call)):
            yield Hit(call, "messages of the role system are joined from wherever they stand: each new one rewrites the front")
    for node in view.nodes(function, ast.If) if names else ():
        if _is_system(node.test, names):
            yield from (Hit(part, "a system message is added to the text in front, wherever it stands: each new one rewrites the front")
                        for part in node.body if _adds(part))  # fmt: skip


def _tests(join: ast.Call) -> list[ast.expr]:
    """The conditions of what is joined."""
    given = join.args[0] if join.args else None
    return [test for loop in given.generators for test in loop.ifs] if isinstance(given, ast.ListComp | ast.GeneratorExp) else []


def _is_system(test: ast.expr, names: dict[str, bool]) -> bool:
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) else []
    is_role = any(isinstance(side, ast.Constant) and side.value == "system" for side in sides)
    return is_role and any(isinstance(part, ast.Name) and part.id in names for part in walk(test))


def _adds(node: ast.stmt) -> bool:
    is_said = isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Subscript | ast.Attribute | ast.BinOp)
    return is_said and isinstance(node, ast.AugAssign) and "system" in last_name(node.target).lower()


HAZARD = Hazard(
    "CKS13", "mid-system-inlined", "B", "warning",
    source=(Pattern(FUNCTIONS, _hoisted, _IN_TESTS, is_near=True, also=(IN_HISTORY,)),),
    requests=(RequestRule("change", _reminder, 14), RequestRule("change", _grown, 80)),
    confirmed_by=("system_changed", "input_changed"),
)  # fmt: skip
