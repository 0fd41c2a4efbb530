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
- source: messages filtered by the role `system` or the class `SystemMessage` and joined into one text, at once or by a
  loop that collects them under the name of a system text, or made into the blocks of one.
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
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import edited
from contextkit.lint.rules.history import messages
from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction, last_name, messages_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk, way_to
from contextkit.prompt.block import text_of

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
    return Evidence(
        f"system text grew by {len(found.span[1]):,} characters at its end, as when a message of the role system is hoisted"
    )


# In code
# --------------------------------------------------------------------------------------------------------------------------

_IN_TESTS: tuple[str, ...] = tuple(f'{equals}"system"' for equals in ("==", "== ")) + tuple(
    f'"system"{equals}' for equals in ("==", " ==")
)
_IN_TESTS += (*(text.replace('"', "'") for text in _IN_TESTS), ", SystemMessage)")
"""One of these stands where a role is compared with this one, or a message's class asked for."""
_FRONT = re.compile(r"system|instruction|preamble", re.IGNORECASE)
"""Names of what stands in front."""
_SHOWS = frozenset(
    [
        "print",
        "pprint",
        "echo",
        "log",
        "write",
        "debug",
        "info",
        "warning",
        "error",
        "len",
        "hash",
        "sha256",
        "md5",
        "encode",
        "count_tokens",
        "num_tokens",
    ]
)
"""Functions that show a text to people, or measure it."""
_JOINED = "messages of the role system are joined from wherever they stand: each new one rewrites the front"
_ADDED = "a system message is added to the text in front, wherever it stands: each new one rewrites the front"


def _hoisted(function: AnyFunction, view: View) -> Iterator[Hit]:
    """All messages of the role system, joined into one text or list of blocks."""
    names = {} if _ASIDE.search(function.name) else messages_of(function, view)
    if not names:
        return
    joins = [call for call in view.nodes(function, ast.Call) if last_name(call.func) == "join"]
    for call in joins:
        if any(_is_system(test, names) for test in _tests(call)) and not _is_displayed(call, function):
            yield Hit(call, _JOINED)
    for blocks in _lists_in_front(function, view):
        if any(_is_system(test, names) for loop in blocks.generators for test in loop.ifs) and isinstance(
            blocks.elt, ast.Dict
        ):
            yield Hit(blocks, _JOINED)
    lists = {last_name(call.args[0]) for call in joins if call.args and _is_sent(call, function, view)}
    for node in view.nodes(function, ast.If):
        if _is_system(node.test, names) and not any(isinstance(part, ast.Break | ast.Raise) for part in walk(node)):
            yield from (Hit(part, _ADDED) for part in node.body if _adds(part, lists))


def _lists_in_front(function: AnyFunction, view: View) -> Iterator[ast.ListComp]:
    """Lists that are stored under the name of what stands in front, or handed over as that."""
    stored = [(last_name(node.targets[0]), node.value) for node in view.nodes(function, ast.Assign)]
    given = [(node.arg or "", node.value) for node in view.nodes(function, ast.keyword)]
    for name, value in (*stored, *given):
        if isinstance(value, ast.ListComp) and _FRONT.search(name):
            yield value


def _is_displayed(call: ast.Call, function: AnyFunction) -> bool:
    """Whether the text goes to people, or is measured, and to no model."""
    around = way_to(call, call.lineno, function, True)
    return any(isinstance(node, ast.Call) and last_name(node.func).lower() in _SHOWS for node in around)


def _is_sent(call: ast.Call, function: AnyFunction, view: View) -> bool:
    """Whether a text is given back, or handed over as what stands in front, at once or by its name."""
    around = way_to(call, call.lineno, function, True)
    stored = {last_name(target) for node in around if isinstance(node, ast.Assign) for target in node.targets}
    given = [node for node in view.nodes(function, ast.keyword) if _FRONT.search(node.arg or "")]
    sent: list[ast.AST] = [*view.nodes(function, ast.Return), *given]
    return any(node in sent for node in around) or any(
        last_name(part) in stored for node in sent for part in walk(node) if stored
    )


def _tests(join: ast.Call) -> list[ast.expr]:
    """The conditions of what is joined."""
    given = join.args[0] if join.args else None
    return (
        [test for loop in given.generators for test in loop.ifs]
        if isinstance(given, ast.ListComp | ast.GeneratorExp)
        else []
    )


def _is_system(test: ast.expr, names: dict[str, bool]) -> bool:
    """`message["role"] == "system"`, `isinstance(message, SystemMessage)`."""
    if isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and len(test.args) == 2:
        return last_name(test.args[1]) == "SystemMessage" and last_name(test.args[0]) in names
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) else []
    is_role = any(isinstance(side, ast.Constant) and side.value == "system" for side in sides)
    return is_role and any(isinstance(part, ast.Name) and part.id in names for part in walk(test))


def _adds(node: ast.stmt, lists: set[str]) -> bool:
    """`system += …`, or `parts.append(…)` of what is joined in the end; by their names they are what stands in front."""
    if isinstance(node, ast.AugAssign):
        return (
            isinstance(node.value, ast.Subscript | ast.Attribute | ast.BinOp)
            and "system" in last_name(node.target).lower()
        )
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        return False
    held = last_name(call.func.value)
    return (
        held in lists
        and bool(_FRONT.search(held))
        and isinstance(call.args[0], ast.Subscript | ast.Attribute | ast.Call)
    )


HAZARD = Hazard(
    "CKS13",
    "mid-system-inlined",
    "B",
    "warning",
    source=(Pattern(FUNCTIONS, _hoisted, _IN_TESTS, is_near=True, also=(IN_HISTORY,)),),
    requests=(RequestRule("change", _reminder, 14), RequestRule("change", _grown, 80)),
    confirmed_by=("system_changed", "input_changed"),
)
