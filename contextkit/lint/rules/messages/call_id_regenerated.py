"""Source rules of CKM13 call-id-regenerated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.facts.load import built_in_table
from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction, messages_of, text_in, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import constant_keys, walk

_CALLS = built_in_table("fields.toml")["calls"]

_KEYS = ("id", *_CALLS["result_ids"], "call_id")

_KINDS = frozenset(_CALLS["types"])

_SERIALISES = re.compile(
    r"(?:^|_)to_(?:wire|openai|anthropic|provider|api|messages?|chat|dicts?)"
    r"|(?:convert|serialize|serialise|format|render|rebuild|replay)_\w*(?:messages?|history|turns?)"
)

_WRITES = re.compile(r"(?:^|_)(?:format|convert|render|to)_\w*(?:blocks?|parts?|content|documents?|wire)(?:_|$)")

_STORED = frozenset({"block", "part", "content", "message", "msg", "item", "turn"})
"""Parameters that are a piece of a stored history."""

_BARE = re.compile(r"_*(?:convert|serialize|serialise)$")

_STORIES = frozenset({"events", "turns", "history", "messages"})
"""Parameters that are a stored history."""

_PARSES = re.compile(r"response|reply|parse|(?:^|_)from_|choice|chunk|stream")

_ANSWERS = re.compile(r"\b(?:finish_reason|stop_reason|choices|usage_metadata|prompt_tokens)\b")
"""Words of a model's answer: what reads them stores the id it makes up, and sends that one from then on."""


def _minted(function: AnyFunction, view: View) -> Iterator[Hit]:
    """An id is made up where stored messages are written for the wire."""
    given = [] if _PARSES.search(function.name) else [*_ids_of_calls(function, view)]
    is_serialiser = bool(given) and (_is_serialiser(function) or bool(messages_of(function, view)))
    if is_serialiser and not _ANSWERS.search(words_in(function)):
        new = (one for one in given if "id" in view.kinds(one))
        yield from (Hit(one, "the id of a call is made up anew each time the history is written") for one in new)


def _is_serialiser(function: AnyFunction) -> bool:
    """Whether its name says that it writes for the wire, and, where that alone says little, it takes a piece of a
    stored history.
    """
    is_bare = _BARE.match(function.name) is not None and bool(_takes(function) & (_STORED | _STORIES))
    return is_bare or _SERIALISES.search(function.name) is not None


def _takes(function: AnyFunction) -> set[str]:
    return {one.arg for one in (*function.args.posonlyargs, *function.args.args)}


def _named(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A document gets a name made up where stored messages are written for the wire: `out["document"]["name"] =
    uuid4().hex`.
    """
    is_written = _SERIALISES.search(function.name) or (_WRITES.search(function.name) and _takes(function) & _STORED)
    of_history = messages_of(function, view)
    if _PARSES.search(function.name) or not (is_written or of_history):
        return
    for node in view.nodes(function, ast.Dict, ast.Assign):
        is_ours = is_written or any(isinstance(part, ast.Name) and part.id in of_history for part in walk(node))
        for name in _names_of_documents(node) if is_ours else ():
            if "id" in view.kinds(name):
                yield Hit(name, "the name of a document is made up anew each time the history is written")


def _names_of_documents(node: ast.AST) -> list[ast.expr]:
    """What is given as the name of a document."""
    if isinstance(node, ast.Dict):
        keys = constant_keys(node)
        return [keys[key] for key in ("name", "title") if key in keys and _is_document(keys)]
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    is_name = (
        isinstance(target, ast.Subscript)
        and text_in(target.slice) in ("name", "title")
        and "document" in words_in(target)
    )
    return [node.value] if isinstance(node, ast.Assign) and is_name else []


def _is_document(keys: dict[str, ast.expr]) -> bool:
    return ("type" in keys and text_in(keys["type"]) == "document") or {"format", "source"} <= keys.keys()


def _ids_of_calls(function: AnyFunction, view: View) -> Iterator[ast.expr]:
    for node in view.nodes(function, ast.Dict):
        keys = constant_keys(node) if isinstance(node, ast.Dict) else {}
        given = next((keys[name] for name in _KEYS if name in keys), None)
        if given is not None and _is_call(keys) and not _is_default(given, function):
            yield given


def _is_default(given: ast.expr, function: AnyFunction) -> bool:
    """Whether the id is an argument that whoever has one gives: made up where a message is first written."""
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return isinstance(given, ast.Name) and any(argument.arg == given.id for argument in arguments)


def _is_call(keys: dict[str, ast.expr]) -> bool:
    kind = keys.get("type")
    return any(name in keys for name in _CALLS["result_ids"]) or (
        isinstance(kind, ast.Constant) and kind.value in _KINDS
    )


SOURCE = (
    Pattern(
        FUNCTIONS,
        _minted,
        ("uuid", "token_hex", "random", "token_urlsafe", "nanoid"),
        also=((*_CALLS["result_ids"], "function", "tool_use", "tool_result"), ('id"', "id'")),
    ),
    Pattern(
        FUNCTIONS,
        _named,
        ("uuid", "token_hex", "random", "token_urlsafe", "nanoid"),
        is_near=True,
        also=(('"document"', "'document'"),),
    ),
)
