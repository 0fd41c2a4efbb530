"""resume-loses-injected-blocks: a resumed session starts with other blocks than it was left with.

## What it does
The output of a hook, a list of skills, a block on the environment was added to the first messages when the session
began, and not stored. On resuming, the code adds it anew: it says something else now, stands elsewhere, is missing,
or is a byte longer.

## Why it costs you
The difference is at the very front of the messages, so a resumed session writes its whole history at 1.25 times the
input price (twice with the one-hour lifetime, which people choose so that resuming stays cheap). Trackers hold
reports of sessions whose first call after a resume cost more than all before it.

## Example
    def load(path):
        messages = json.loads(path.read_text())
        messages[0]["content"].insert(0, {"type": "text", "text": run_session_start_hook()})
        messages[0]["content"].insert(1, {"type": "text", "text": list_skills()})
        return messages

    client.messages.create(model=MODEL, max_tokens=4096, messages=load(path))

## Use instead
Store what was sent, load it as it is, and check that it is the same:

    messages = json.loads(path.read_text())                       # with everything that was injected
    if prefix_digest(messages) != stored_digest:
        raise RuntimeError("the stored session does not give the bytes that were sent")
    messages.append({"role": "user", "content": run_session_start_hook()})

`Context.open(folder, provider)` reads stored bytes chained by digest, so a resumed session sends the same prefix or
says `LogCorrupt`.

## Detected by
- source: the loading of a session followed by functions that insert blocks into its first messages.
- requests: a block of the first or second message is missing, new or altered; by its shape alone, any earlier message
  that is not as it was sent. A user who goes back to an earlier question and asks another begins a branch, and breaks nothing.
- guard: the same comparison, where the guard has the earlier call on record.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/44045
- https://github.com/anthropics/claude-code/issues/43657
- https://github.com/anthropics/claude-code/issues/86299
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.lifetimes import pause_of
from contextkit.lint.rules.marking import assigned, constant
from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction, last_name
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import is_system_message, walk


def _front(step: Step, change: Change) -> Evidence | None:
    """Blocks of the first or second message are missing, new, moved or altered."""
    blocks = (*change.was, *change.now)
    if change.level != "messages" or any(
        block.message > 1 or block.type not in ("text", "document") for block in blocks
    ):
        return None
    how = "altered" if change.was and change.now else "missing" if change.was else "new"
    return Evidence(f"a block of the first messages is {how}, {pause_of(step)} after the call before")


def _changed(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages" or not change.is_first:
        return None
    return Evidence(
        "an earlier message is not as it was sent; only its shape is known, as when history is put together anew"
    )


# In code
# --------------------------------------------------------------------------------------------------------------------------

_LOADS = re.compile(r"(?:^|_)(?:load|resume|restore|reopen|rehydrate|continue)(?:_|$)")
_READS = frozenset(
    {"loads", "load", "read_text", "read", "fetchall", "read_session", "load_session", "model_validate_json"}
)
_TAKES = _READS | {"pop", "get", "copy", "deepcopy"}
"""What gives something that was stored."""
_NOT_AS_SENT = "a block is put in front of a history when it is loaded: it is not the one that was sent"


def _injected(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A stored history gets blocks at its front when it is loaded."""
    calls = view.nodes(function, ast.Call)
    if not _LOADS.search(function.name) or not any(last_name(call.func) in _READS for call in calls):
        return
    joined = [one for one in view.nodes(function, ast.BinOp, ast.List) if _is_put_before(one, view)]
    begun = [one for one in view.nodes(function, ast.Assign) if _is_begun_anew(one, view)]
    yield from (
        Hit(one, _NOT_AS_SENT)
        for one in (*(call for call in calls if _is_front(call, function, view)), *joined, *begun)
    )


def _is_put_before(node: ast.AST, view: View) -> bool:
    """`[environment()] + history`, `[environment(), *history]`, unless it is the system prompt."""
    if isinstance(node, ast.BinOp):
        items = (
            node.left.elts
            if isinstance(node.op, ast.Add) and isinstance(node.left, ast.List) and view.is_history(node.right)
            else []
        )
    else:
        elements = node.elts if isinstance(node, ast.List) else []
        last = elements[-1] if elements else node
        items = elements[:-1] if isinstance(last, ast.Starred) and view.is_history(last.value) else []
    return any(_is_called_for(item) and not is_system_message(item) for item in items)


def _is_called_for(item: ast.expr) -> bool:
    """Whether a function says what it is; a class around a constant does not."""
    return any(isinstance(part, ast.Call) and last_name(part.func)[:1].islower() for part in walk(item))


def _is_begun_anew(node: ast.Assign, view: View) -> bool:
    """`history[0]["content"] = environment() + history[0]["content"]`."""
    target, value = node.targets[0], node.value
    first = (
        target.value if isinstance(target, ast.Subscript) and constant(target.slice) in ("content", "text") else None
    )
    if not isinstance(first, ast.Subscript) or constant(first.slice) != 0 or not view.is_history(first.value):
        return False
    return (
        isinstance(value, ast.BinOp | ast.JoinedStr)
        and _is_called_for(value)
        and ast.unparse(target) in ast.unparse(value)
    )


def _is_front(call: ast.Call, function: AnyFunction, view: View) -> bool:
    """`messages.insert(0, made())`, `messages[0]["content"].insert(1, made())`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "insert" or len(call.args) < 2:
        return False
    if not _is_made(call.args[1]) and not _is_made_before(call.args[1], function):
        return False
    at, target = call.args[0], call.func.value
    inner = (
        target.value.value if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript) else target
    )
    return isinstance(at, ast.Constant) and at.value in (0, 1) and view.is_history(inner)


def _is_made(value: ast.expr) -> bool:
    """Whether it is computed, not taken from what was stored."""
    return any(isinstance(part, ast.Call) for part in walk(value))


def _is_made_before(value: ast.expr, function: AnyFunction) -> bool:
    """`hook = subprocess.run(…).stdout`, put into a block of its own."""
    made = (one for part in walk(value) if isinstance(part, ast.Name) for one in assigned(function, part.id))
    called = ([part for part in walk(one) if isinstance(part, ast.Call)] for one in made)
    return any(calls and not any(last_name(call.func) in _TAKES for call in calls) for calls in called)


HAZARD = Hazard(
    "CKM22",
    "resume-loses-injected-blocks",
    "A",
    "warning",
    source=(Pattern(FUNCTIONS, _injected, (".insert(", "] +", "[0]", ", *"), is_near=True, also=((*_READS,),)),),
    requests=(RequestRule("change", _front, 60), RequestRule("change", _changed, 90)),
    confirmed_by=("messages_changed", "input_changed"),
)
