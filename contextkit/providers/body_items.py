"""Items of a request body (tools, system parts, messages), rendered once for all bodies that begin with them.

A conversation sends its whole history with every request. `render_items` takes over the blocks of the leading items that
an earlier body had too, and renders the rest: reading a body that continues another costs what it added, a comparison of
bytes and a copy of columns aside. The result is the same as without the earlier body.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count, takewhile
from operator import eq, is_
from typing import Any, NamedTuple

import orjson

from contextkit.canonical import Json
from contextkit.prompt.prompt import Level, PromptColumns, RenderedBlock


class BodyItem(NamedTuple):
    """One tool, system part or message of a body; its blocks depend on nothing else of the body."""

    level: Level
    """tools, system or messages."""
    value: Json
    """As parsed, markers included."""
    role: str = ""
    """Role, where the value does not hold it."""
    path: str = ""
    """Where it stands, for errors."""
    number: int = -1
    """Its place among the messages, for errors; -1 for an item that is none."""


@dataclass(frozen=True, slots=True)
class RenderedItems:
    """The items of a parsed body, with the columns of their blocks."""

    rules: tuple[object, ...]
    """What the blocks depend on besides the items: the model, and options of the parser."""
    keys: Sequence[bytes]
    """Level, role and value of each item, as `spelled`."""
    messages: Sequence[Json]
    """Values of the last items, which are messages of the level `messages`."""
    ends: array[int]
    """Blocks up to and including each item."""
    markers: dict[int, Json]
    """Block → the cache marker it came with."""
    columns: PromptColumns
    """Their blocks; never appended to."""


def render_items(
    head: Sequence[BodyItem],
    messages: Sequence[Json],
    render: Callable[[BodyItem], Iterable[RenderedBlock]],
    columns: PromptColumns,
    rules: tuple[object, ...],
    *,
    near: Iterable[RenderedItems] = (),
    n_before: int = 0,
) -> RenderedItems:
    """Render `head` and, behind it, `messages`; leading items that a body of `near` has too are copied from it.

    `columns` are empty; `rules` are all that `render` depends on besides an item; `n_before` messages of the body stand in
    `head`. Messages that are the same objects as in the first body of `near` are not even compared.
    """
    alike = [one for one in near if _has_rules(one, columns, rules)]
    keys = [*(spelled((item.level, item.role, item.value)) for item in head), *_keys(messages, alike)]
    n, best = max(((n_leading(keys, one.keys), one) for one in alike), key=lambda pair: pair[0], default=(0, None))
    ends, markers = array("q"), dict[int, Json]()
    if best and n:
        n_blocks = best.ends[n - 1]
        ends, columns = best.ends[:n], best.columns.rewound(n_blocks)
        markers = {index: marker for index, marker in best.markers.items() if index < n_blocks}
    first = max(n - len(head), 0)
    new = (BodyItem("messages", one, number=n_before + index) for index, one in enumerate(messages[first:], first))
    rendered = [list(render(item)) for item in chain(head[n:], new)]  # first, so that the columns grow in one place
    for blocks in rendered:
        for block in blocks:
            if block.marker is not None:
                markers[len(columns.ends)] = block.marker
            columns.append(block)
        ends.append(len(columns.ends))
    return RenderedItems(rules, keys, messages, ends, markers, columns)


def _has_rules(one: RenderedItems, columns: PromptColumns, rules: tuple[object, ...]) -> bool:
    """Return whether the items of an earlier body would be rendered alike, into columns that count alike."""
    was = one.columns
    return (
        one.rules == rules
        and was.grammar is columns.grammar
        and was.strips_thinking == columns.strips_thinking
        and was.tool_prompt_tokens == columns.tool_prompt_tokens
    )


def _keys(messages: Sequence[Json], near: Sequence[RenderedItems]) -> list[bytes]:
    """The keys of messages."""
    before = near[0] if near else None
    n = sum(1 for _ in takewhile(bool, map(is_, messages, before.messages))) if before else 0
    n_head = len(before.keys) - len(before.messages) if before else 0
    keys = list(before.keys[n_head : n_head + n]) if before else []
    return [*keys, *(spelled(("messages", "", message)) for message in messages[n:])]


def spelled(value: Json) -> bytes:
    """Return bytes that equal those of another JSON value only where both are one value, the order of keys included.

    Those of a value that orjson does not write equal no others. (`==` takes `1`, `1.0` and `true` for one value, and does not
    see the order of keys, which caches key.)
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return b"?%d" % next(_NUMBERS)


_NUMBERS = count()


def n_leading(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Count the leading elements that are equal."""
    most = min(len(one), len(other))
    return most if one[:most] == other[:most] else sum(1 for _ in takewhile(bool, map(eq, one, other)))
