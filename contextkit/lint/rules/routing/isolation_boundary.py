"""Source rules of CKR08 isolation-boundary."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import keyword, last_name, takes_next
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_CLIENTS = re.compile(
    r"^(?:Async)?(?:Anthropic|OpenAI|AzureOpenAI|AnthropicBedrock|AnthropicVertex)$|^a?completion$|^with_options$"
)

_GEMINI = ("google.genai.Client",)

_ROTATES = re.compile(r"^_*(?:next|get_next|rotate|pick|random)(?:_\w+)?$")

_COUNTS = re.compile(
    r"^_*(?:i|n|idx|index|counter|count|n_calls|calls|cursor|turn|(?:\w+_)(?:idx|index|counter|count|cursor))$"
)
"""Names of a number that goes up with the calls."""

_KEYS = re.compile(r"key|cred|token|account", re.IGNORECASE)


def _rotating(node: ast.Call, view: View) -> Iterator[Hit]:
    """`Anthropic(api_key=random.choice(KEYS))`."""
    value = keyword(node, "api_key")
    function = view.function()
    if value is None or function is None or function.name in sanitizers.ONCE or not _takes_credential(node, view):
        return
    if "choice" in view.kinds(value) or takes_next(value) or _asks_for_next(value) or _in_turn(value, view):
        yield Hit(value, "the credential rotates, and the cache belongs to the account behind it")


def _takes_credential(node: ast.Call, view: View) -> bool:
    """`Anthropic(api_key=…)`, `client.with_options(api_key=…)`, Gemini's `Client(api_key=…)`."""
    return bool(_CLIENTS.match(last_name(node.func))) or view.dotted(node) in _GEMINI


def _in_turn(node: ast.expr, view: View) -> bool:
    """`keys[calls % len(keys)]`, and `keys[self.index]` in a class that says `self.index = (self.index + 1) %
    len(keys)`.
    """
    if not isinstance(node, ast.Subscript) or not _KEYS.search(last_name(node.value)):
        return False
    place = node.slice
    if isinstance(place, ast.BinOp):
        return isinstance(place.op, ast.Mod) and bool(_COUNTS.search(last_name(place.left)))
    name, around = last_name(place), view.parents()
    owner = next((part for part in reversed(around) if isinstance(part, ast.ClassDef)), None)
    start, end = view.bytes_at(owner) if owner else (0, len(view.source))
    goes_up = re.compile(rb"\b%s = .*\+ 1\) %% len\(" % re.escape(name.encode()))
    return bool(_COUNTS.search(name) and goes_up.search(view.source, start, end))


def _asks_for_next(node: ast.expr) -> bool:
    """`pool.next_key()`."""
    if (
        not isinstance(node, ast.Call)
        or not _ROTATES.match(last_name(node.func))
        or not isinstance(node.func, ast.Attribute)
    ):
        return False
    return any(_KEYS.search(last_name(part)) for part in walk(node))


SOURCE = (Pattern((ast.Call,), _rotating, ("api_key",), is_near=True, names=("api_key",)),)
