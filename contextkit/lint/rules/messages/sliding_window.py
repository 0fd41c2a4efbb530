"""Source rules of CKM04 sliding-window."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import keyword, model_calls
from contextkit.lint.rules.tails import is_abridged, is_rare, is_summed_up, joined, parts_of
from contextkit.lint.source import sinks
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk

_GIVEN = frozenset({"messages", "input", "contents", "history", "chat_history", "message_history", "conversation"})

_SHOWN = frozenset({"history", "conversation"})
"""Keys under which a page is given something to show."""

_CUTS = re.compile(
    r"(?:^|_)(?:trim|truncate|window|limit|prune|prepare|build|cut|shorten|clip|filter)|(?:^|_)(?:messages|history|context)_for_"
)

_SIDE = re.compile(r"summar|compact|title|judge|classif|recall", re.IGNORECASE)
"""Functions that ask something about a conversation, once, outside of it."""

_ASKS = re.compile(
    r"create|complet|chat|invoke|generat|stream|respon|reply|answer|ask|run|send|call|llm|model|query|predict|forward|parse|request",
    re.IGNORECASE,
)
"""Names of what gives messages to a model."""

_HANDED = re.compile(r"hand_?off|handover|delegat", re.IGNORECASE)
"""What another agent is given begins under another prompt anyway."""

_NAMES = re.compile(
    r"(?:^|_)(?:messages|(?:chat|message|conversation|dialog)_history|conversation|transcript|dialog(?:ue)?)$",
    re.IGNORECASE,
)

_VAGUE = re.compile(r"^(?:_|chat_)?(?:history|turns|chat)$")
"""Names of other lists as well: these are believed where the file speaks of roles."""

_ROLES = re.compile(rb"[\"']role[\"']|Message\b")

_MORE_OR_LESS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)

_KEPT = "only the last messages are kept: the history begins one turn later in each call"

_LISTS = (("messages", "history", "msgs", "conversation", "transcript", "dialog", "turns", "chat"),)

_KEEPERS = (
    "ConversationBufferWindowMemory",
    "MessageHistoryTrimmer",
    "BufferWindowMemory",
    "SlidingWindowConversationManager",
)


def _slice(node: ast.Subscript, view: View) -> Iterator[Hit]:
    """`messages[-N:]` on its way into a call, or in place of the history."""
    cut, held = node.slice, _copied(node.value)
    if not isinstance(cut, ast.Slice) or cut.upper is not None or not _is_from_the_end(cut.lower, held):
        return
    is_said = (
        isinstance(node.ctx, ast.Load)
        and (view.is_history(held) or _is_of_turns(held, view))
        and _holds_messages(held, view)
    )
    if is_said and _is_sent(node, held, view) and not _is_said_otherwise(node, view):
        yield Hit(node, _KEPT)


def _is_of_turns(node: ast.expr, view: View) -> bool:
    """Whether a list called `turns` is given messages in this file."""
    name = last_name(node)
    return (
        name in _TURNS
        and re.search(rb"\b%s\.(?:append|extend)\([^\n]*[\"']role[\"']" % name.encode(), view.source) is not None
    )


_TURNS = frozenset({"turns", "_turns"})


def _is_said_otherwise(node: ast.Subscript, view: View) -> bool:
    """Whether the rest stands beside it: each message in brief (CKM08), or a summary of them all, made when there was
    too much.
    """
    whole = joined(view.parents())
    parts = [part for part in parts_of(whole) if part is not node] if whole is not None else []
    if any(is_abridged(part, node) for part in parts):
        return True
    return any(is_summed_up(part, node, view) for part in parts) and is_rare(node, view)


def _copied(node: ast.expr) -> ast.expr:
    """`messages` of `list(messages)`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"list", "tuple"}
        and len(node.args) == 1
    ):
        return node.args[0]
    return node


def _is_from_the_end(start: ast.expr | None, held: ast.expr) -> bool:
    """`-N`, `len(messages) - N`."""
    if isinstance(start, ast.BinOp) and isinstance(start.op, ast.Sub):
        return _is_length(start.left, held)
    return isinstance(start, ast.UnaryOp) and not _is_one(start)


def _is_length(node: ast.expr, held: ast.expr) -> bool:
    """`len(messages)`."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "len" or len(node.args) != 1:
        return False
    return ast.unparse(node.args[0]) == ast.unparse(held)


def _shortened(node: ast.Delete, view: View) -> Iterator[Hit]:
    """`del messages[:-N]`, and `del messages[0]` where there are too many."""
    for target in node.targets:
        if (
            not isinstance(target, ast.Subscript)
            or not view.is_history(target.value)
            or not _is_cut_here(target.value, view)
        ):
            continue
        cut = target.slice
        is_window = isinstance(cut, ast.Slice) and isinstance(cut.upper, ast.UnaryOp) and not _is_one(cut.upper)
        is_front = isinstance(cut, ast.Slice) and isinstance(cut.lower, ast.Constant | None) and cut.upper is not None
        is_first = isinstance(cut, ast.Constant) and cut.value in (0, 1)
        if is_window or ((is_front or is_first) and _is_too_long(target.value, view)):
            yield Hit(node, _KEPT)


def _taken(node: ast.Call, view: View) -> Iterator[Hit]:
    """`messages.pop(0)` where there are too many, for nothing but to have one less."""
    func, above = node.func, view.parents()[-1]
    is_first = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value in (0, 1)
    if (
        not isinstance(func, ast.Attribute)
        or not isinstance(above, ast.Expr)
        or not (is_first or func.attr == "popleft")
    ):
        return
    if view.is_history(func.value) and _is_cut_here(func.value, view) and _is_too_long(func.value, view):
        yield Hit(node, _KEPT)


def _is_cut_here(held: ast.expr, view: View) -> bool:
    """Whether what is sent is cut, and not something that is asked about it."""
    function = view.function()
    name = function.name if function else ""
    is_asked = _is_own(held) or view.calls_model() or bool(_CUTS.search(name))
    is_said = not _VAGUE.match(last_name(held)) or bool(_ROLES.search(view.source))
    return is_said and _holds_messages(held, view) and is_asked and not _SIDE.search(name) and not _is_on_demand(view)


def _is_too_long(held: ast.expr, view: View) -> bool:
    """Whether an `if` around asks how many there are; what a `while` takes away goes down to a cap (CKM05)."""
    asking = [
        type(one) for one in view.parents() if isinstance(one, ast.If | ast.While) and _asks_length(one.test, held)
    ]
    return asking != [] and ast.While not in asking


def _asks_length(test: ast.expr, held: ast.expr) -> bool:
    """Whether a test says more, or less, than so many: one that asks for an exact number looks for something else."""
    compares = (part for part in walk(test) if isinstance(part, ast.Compare) and isinstance(part.ops[0], _MORE_OR_LESS))
    return any(_is_length(side, held) for one in compares for side in (one.left, *one.comparators))


def _is_one(count: ast.UnaryOp) -> bool:
    """`-1`, `-2`, and `-len(new)`, which leaves the old ones out on purpose."""
    is_length = isinstance(count.operand, ast.Call) and last_name(count.operand.func) == "len"
    return is_length or (isinstance(count.operand, ast.Constant) and count.operand.value in (1, 2))


def _is_sent(node: ast.Subscript, held: ast.expr, view: View) -> bool:
    """Whether what it is part of is given to a model, becomes the history, or is what a trimming function returns."""
    child: ast.AST = node
    function = view.function()
    name = function.name if function else ""
    around = view.parents()
    for place, parent in reversed([*enumerate(around)]):
        if isinstance(parent, ast.keyword):
            call = around[place - 1]
            is_asked = isinstance(call, ast.Call) and bool(_ASKS.search(last_name(call.func)))
            return (parent.arg == "messages" and is_asked) or (
                parent.arg in _GIVEN and parent in _arguments(call, view)
            )
        if isinstance(parent, ast.Assign):
            if _is_given(parent.targets[0], view):
                return not _SIDE.search(name)
            is_stored = any(ast.unparse(target).removesuffix("[:]") == ast.unparse(held) for target in parent.targets)
            is_cut = not _SIDE.search(name) and (view.calls_model() or bool(_CUTS.search(name)))
            return is_stored and not _is_on_demand(view) and (_is_own(held) or is_cut)
        if isinstance(parent, ast.Return):
            return (bool(_CUTS.search(name)) or _is_asked_for(name, view)) and not _SIDE.search(name)
        if isinstance(parent, ast.Dict):
            return not _SIDE.search(name) and any(
                value is child and isinstance(key, ast.Constant) and key.value in _GIVEN - _SHOWN
                for key, value in zip(parent.keys, parent.values, strict=True)
            )
        if not isinstance(parent, ast.List | ast.Starred | ast.BinOp | ast.IfExp | ast.Tuple):
            return False
        child = parent
    return False


def _is_asked_for(name: str, view: View) -> bool:
    """Whether this file gives a model what a function returns: `messages=memory.as_messages()`,
    `history_processors=[keep_recent]`.
    """
    word = re.escape(name.encode())
    given = rb"\b(?:messages|input|contents)\s*=\s*(?:await\s+)?(?:[\w.]+\.)?%s\(|\bhistory_processors\s*=\s*\[[^\]]*\b%s\b[^\]]*\]"
    return bool(name) and re.search(given % (word, word), view.source) is not None


def _is_given(target: ast.expr, view: View) -> bool:
    """Whether the function gives a variable to a model as its messages."""
    function = view.function()
    calls = model_calls(function, view) if function is not None and isinstance(target, ast.Name) else []
    return any(
        given.arg in _GIVEN and ast.unparse(given.value) == ast.unparse(target)
        for call in calls
        for given in call.keywords
    )


def _holds_messages(node: ast.expr, view: View) -> bool:
    """Whether a list of a name that others have as well is given messages in this file, where it shows what it is
    given.
    """
    name = last_name(node)
    if not _VAGUE.match(name):
        return True
    given = re.findall(rb"\b%s\.(?:append|extend|insert)\((.*)" % name.encode(), view.source)
    return not given or any(map(_SAID.search, given))


_SAID = re.compile(rb"(?i)role|message|msg|content|turn|user|assistant|reply|response|answer|prompt|\{\s*$|^\s*$")


def _is_on_demand(view: View) -> bool:
    """Whether a cut is offered to whoever uses the class: a public method of it that this file does not call, and that
    adds nothing.

    What is handed to another agent is cut once as well.
    """
    function, around = view.function(), view.parents()
    if function is None:
        return False
    names = [getattr(part, "name", "") for part in around]
    if any(map(_HANDED.search, names)):
        return True
    is_method = any(isinstance(part, ast.ClassDef) for part in around) and not function.name.startswith("_")
    is_called = re.search(rb"(?<!def )\b%s\(" % function.name.encode(), view.source)
    return (
        is_method
        and not is_called
        and not sinks.PER_TURN.match(function.name)
        and b".append(" not in _written(function, view)
    )


def _written(function: ast.AST, view: View) -> bytes:
    start, end = view.bytes_at(function)
    return view.source[start:end]


def _arguments(call: ast.AST, view: View) -> list[ast.keyword]:
    """Those of a call of a model; of other calls none."""
    return call.keywords if isinstance(call, ast.Call) and call in model_calls(call, view) else []


def _is_own(node: ast.expr) -> bool:
    """`self.messages`."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_conversation(name: str, node: ast.Assign | ast.AnnAssign, view: View) -> bool:
    said = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else ""
    if "[" in said and not re.search(r"dict|Dict|Message|Any", said):
        return False
    return bool(_NAMES.search(name)) or bool(_VAGUE.match(name) and _ROLES.search(view.source))


def _queue(node: ast.Assign | ast.AnnAssign, view: View) -> Iterator[Hit]:
    """A history that is a `deque` with a length."""
    call = node.value
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if (
        isinstance(call, ast.Call)
        and last_name(call.func) == "deque"
        and _is_conversation(last_name(targets[0]), node, view)
    ):
        limit = keyword(call, "maxlen") or (call.args[1] if len(call.args) > 1 else None)
        if limit is not None and not (isinstance(limit, ast.Constant) and limit.value is None):
            yield Hit(call, "a history of limited length loses its oldest message with each new one")


def _trimmed(call: ast.Call, view: View) -> Iterator[Hit]:
    name = last_name(call.func)
    if name in _KEEPERS:
        yield Hit(call, f"{name} keeps the last messages only: the history begins one turn later in each call")
    strategy, function = keyword(call, "strategy"), view.function()
    is_aside = function is not None and bool(_SIDE.search(function.name))
    if (
        name == "trim_messages"
        and not is_aside
        and (strategy is None or (isinstance(strategy, ast.Constant) and strategy.value == "last"))
    ):
        yield Hit(
            call,
            "trim_messages() keeps the last messages that fit: near the limit the history begins later in each call",
        )


SOURCE = (
    Pattern((ast.Subscript,), _slice, ("[-", "[len("), is_near=True),
    Pattern((ast.Delete,), _shortened, ("del ",), is_near=True, also=_LISTS),
    Pattern((ast.Call,), _taken, (".pop(0", ".pop(1", ".popleft("), is_near=True, also=_LISTS),
    Pattern((ast.Assign, ast.AnnAssign), _queue, ("deque(",), is_near=True),
    Pattern((ast.Call,), _trimmed, ("trim_messages", *_KEEPERS), is_near=True),
)
