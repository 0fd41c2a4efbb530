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
  that is not as it was sent.
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
from contextkit.lint.rules.lifetimes import pause_of
from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction, last_name
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax.pieces import walk
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _front(step: Step, change: Change) -> Evidence | None:
    """Blocks of the first or second message are missing, new, moved or altered."""
    blocks = (*change.was, *change.now)
    if change.level != "messages" or any(block.message > 1 or block.type not in ("text", "document") for block in blocks):
        return None
    how = "altered" if change.was and change.now else "missing" if change.was else "new"
    return Evidence(f"a block of the first messages is {how}, {pause_of(step)} after the call before")


def _changed(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages" or not change.is_first:
        return None
    return Evidence("an earlier message is not as it was sent; only its shape is known, as when history is put together anew")


# In code --------------------------------------------------------------------------------------------------------------------------

_LOADS = re.compile(r"(?:^|_)(?:load|resume|restore|reopen|rehydrate|continue)(?:_|$)")
_READS = frozenset({"loads", "load", "read_text", "read", "fetchall", "read_session", "load_session", "model_validate_json"})


def _injected(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A stored history gets blocks at its front when it is loaded."""
    if not _LOADS.search(function.name):
        return
    calls = view.nodes(function, ast.Call)
    is_read = any(last_name(call.func) in _READS for call in calls)
    for call in calls if is_read else ():
        if _is_front(call, view):
            yield Hit(call, "a block is put in front of a history when it is loaded: it is not the one that was sent")


def _is_front(call: ast.Call, view: View) -> bool:
    """`messages.insert(0, made())`, `messages[0]["content"].insert(1, made())`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "insert" or len(call.args) < 2 or not _is_made(call.args[1]):
        return False
    at, target = call.args[0], call.func.value
    inner = target.value.value if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript) else target
    return isinstance(at, ast.Constant) and at.value in (0, 1) and view.is_history(inner)


def _is_made(value: ast.expr) -> bool:
    """Whether it is computed, not taken from what was stored."""
    return any(isinstance(part, ast.Call) for part in walk(value))


HAZARD = Hazard(
    "CKM22", "resume-loses-injected-blocks", "A", "warning",
    source=(Pattern(FUNCTIONS, _injected, (".insert(",), is_near=True),),
    requests=(RequestRule("change", _front, 60), RequestRule("change", _changed, 90)),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
