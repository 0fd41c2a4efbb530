"""Recorded request bodies with one thing changed: tools in one order, a clock at the tail, old results left as they
were sent.

Takes parsed bodies lane by lane in their order, changes them in place. Bodies of an endpoint that is not in
`providers.body_places` are left alone. Knows nothing of caches.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from contextkit.canonical import Json
from contextkit.prompt.normal_form import MARKERS
from contextkit.providers.body_places import BODY_PLACES

Lane = tuple[str, str]
"""Session, lane."""


class SortTools:
    """Definitions in the order of their names; a marker among them moves to the last one."""

    def edit(self, lane: Lane, wire: str, fields: dict[str, Json]) -> bool:
        """Sort; gives whether the order was another."""
        tools = fields.get("tools")
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            return False
        markers = [(name, tool[name]) for tool in tools for name in sorted(MARKERS & tool.keys())]
        ordered = sorted(
            ({name: value for name, value in tool.items() if name not in MARKERS} for tool in tools), key=_tool_name
        )
        if markers:
            ordered[-1] = {**ordered[-1], markers[-1][0]: markers[-1][1]}
        is_other = ordered != tools
        fields["tools"] = ordered
        return is_other


def _tool_name(tool: Mapping[str, Json]) -> tuple[str, str]:
    function = tool.get("function")
    inner = function.get("name") if isinstance(function, dict) else None
    return str(tool.get("name") or inner or ""), str(tool.get("type") or "")


_DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
_MONTHS = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_WORDED = rf"\d{{1,2}}(?:st|nd|rd|th)?\.?\s+{_MONTHS}\.?(?:,?\s+\d{{4}})?|{_MONTHS}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}})?"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[ap]\.?m\b\.?)?(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_RUN = r"(?=[0-9a-f]*\d)[0-9a-f]{8,128}|\d{9,40}(?:\.\d+)?"
VOLATILE = re.compile(rf"\b(?:{_UUID}|(?:{_DATE})(?:[T ]{_TIME})?|{_TIME}|{_WORDED}|{_WEEKDAY}|{_RUN})", re.IGNORECASE)
"""Dates, times of day, ids: what a template puts into a system prompt anew each time."""


@dataclass(slots=True)
class _Frozen:
    """What a lane's system text said first, and what was told of it since."""

    shapes: list[str] = field(default_factory=list)
    """The texts, with their volatile words left out."""
    first: list[list[str]] = field(default_factory=list)
    """Those words, text by text, as the conversation began."""
    last: list[list[str]] = field(default_factory=list)
    """As they were told last."""
    notes: list[tuple[int, str]] = field(default_factory=list)
    """(message index, note) of what was told, in rising order."""


class FreezeClock:
    """Dates, times and ids in system text stay what they were at first.

    A new value is told behind the newest message, and stays there.
    """

    def __init__(self) -> None:
        self._lanes: defaultdict[Lane, _Frozen] = defaultdict(_Frozen)

    def edit(self, lane: Lane, wire: str, fields: dict[str, Json]) -> bool:
        """Freeze and tell; gives whether there was anything to freeze or to repeat."""
        places_of, frozen = BODY_PLACES[wire], self._lanes[lane]
        messages = fields.get(places_of.messages)
        if not isinstance(messages, list) or not messages:
            return False
        places = list(places_of.system(fields))
        texts = [str(holder[key]) for holder, key in places]  # type: ignore[index]
        shapes, words = [VOLATILE.sub("\0", text) for text in texts], [VOLATILE.findall(text) for text in texts]
        if shapes != frozen.shapes:  # another prompt, or the first: what it says now is what stays
            self._lanes[lane] = frozen = _Frozen(shapes, words, words)
            return False
        self._freeze(frozen, words, messages)
        for (holder, key), shape, first in zip(places, shapes, frozen.first, strict=True):
            values = iter(first)
            holder[key] = "".join(piece + next(values, "") for piece in shape.split("\0"))  # type: ignore[index]
        for index, note in reversed(frozen.notes):
            places_of.append_note(messages, index, note)
        return bool(frozen.notes) or words != frozen.first

    def _freeze(self, frozen: _Frozen, words: list[list[str]], messages: list[Json]) -> None:
        """Note what is new behind the last message of the user's side.

        Where history was cut short, what stood behind it is gone.
        """
        frozen.notes = [(index, note) for index, note in frozen.notes if index < len(messages)]
        new = [
            now
            for was, are in zip(frozen.last, words, strict=True)
            for old, now in zip(was, are, strict=True)
            if old != now
        ]
        at = next((i for i in range(len(messages) - 1, -1, -1) if _is_question(messages[i])), None)
        if new and at is not None and not any(index == at for index, _ in frozen.notes):
            frozen.notes.append((at, f"[Now: {', '.join(new)}]"))
            frozen.last = words


def _is_question(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") != "assistant"


class KeepResults:
    """What a tool answered stays what it was when it was first sent."""

    def __init__(self) -> None:
        self._sent: defaultdict[Lane, dict[str, Json]] = defaultdict(dict)

    def edit(self, lane: Lane, wire: str, fields: dict[str, Json]) -> bool:
        """Put back; gives whether a result was another."""
        is_other = False
        for call_id, holder, key in BODY_PLACES[wire].results(fields):
            first = self._sent[lane].setdefault(call_id, holder.get(key))
            if holder.get(key) != first:
                holder[key], is_other = first, True
        return is_other
