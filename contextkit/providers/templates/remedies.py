"""What keeps a prompt a prefix: options of the template, and edits of it, each tried by rendering again.

Takes a template and a question that rendering answers; gives what made the answer yes. Nothing is advised that was not
tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.providers.templates.template import Template

Holds = Callable[[Template, Mapping[str, Json]], bool]
"""(template, options above the requests' own) → whether every prompt is a prefix of the next one."""
_CONDITION = re.compile(r"\{%-?\s*(?:el)?if\s+(?P<said>.+?)\s*-?%\}", re.DOTALL)
_TRIMMED = re.compile(r"\s*\|\s*trim\b|\.strip\(\)")
_DATED = re.compile(r"strftime_now\([^()]*\)")
_RELEVANT = re.compile(r"loop\.|last|index|think|reason|step|date|role")
"""What conditions speak of that let go of earlier messages."""
_MOST_EDITS = 80
FIXED_DATE = "01 Jan 2026"
"""Stands for any date that does not move."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that helps."""

    kind: str
    """`option` (of `chat_template_kwargs`), `edit` (of the template) or `caller` (of what is sent)."""
    words: str
    """What to do."""
    options: Mapping[str, Json]
    """What to put into `chat_template_kwargs`; empty for other kinds."""
    changed_chars: int = 0
    """How much longer (or shorter) it makes the last prompt."""
    line: int = 0
    """Line of the template; 0 for other kinds."""
    was: str = ""
    """What stands there."""
    now: str = ""
    """What should."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a remedy leaves as it was."""

    is_first_same: bool
    """Whether the first prompt is what it was."""
    n_texts: int
    """Texts of the conversation that the last prompt holds now and did not before, less those it no longer holds."""
    changed_chars: int
    """How much longer the last prompt has become."""

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The more the better."""
        return self.is_first_same, self.n_texts, -abs(self.changed_chars)


Keeps = Callable[[Template, Mapping[str, Json]], Kept]
"""(template, options) → what they leave as it was."""


def by_option(template: Template, holds: Holds, keeps: Keeps) -> Remedy | None:
    """The value of one option that helps, the one that changes least; None where no option does."""
    tried = [
        {name: value} for name in template.options for value in (True, False, *([FIXED_DATE] if "date" in name else []))
    ]
    found = [options for options in tried if _safely(holds, template, options)]
    if not found:
        return None
    best, kept = max(((options, keeps(template, options)) for options in found), key=lambda row: row[1].rank)
    return Remedy("option", f"chat_template_kwargs={best!r}", best, kept.changed_chars)


def by_edit(template: Template, holds: Holds, keeps: Keeps, *, may_change_first: bool) -> Remedy | None:
    """One change of one expression of the template that helps, the one that changes least; None where none does.

    It must lose nothing that was said, nor, unless `may_change_first`, change the first prompt.
    """
    found: list[tuple[Kept, int, str, str]] = []
    for start, was, now in islice(_edits(template.text), _MOST_EDITS):
        text = template.text[:start] + now + template.text[start + len(was) :]
        try:
            edited = template.with_text(text)
        except UsageError:
            continue  # an expression that cannot be cut there
        if _safely(holds, edited, {}):
            kept = keeps(edited, {})
            found += [(kept, start, was, now)] if kept.n_texts >= 0 and (kept.is_first_same or may_change_first) else []
    if not found:
        return None
    kept, start, was, now = max(found, key=lambda row: row[0].rank)
    line = template.text.count("\n", 0, start) + 1
    return Remedy("edit", f"line {line} of the template: {was!r} → {now!r}", {}, kept.changed_chars, line, was, now)


def _safely(holds: Holds, template: Template, options: Mapping[str, Json]) -> bool:
    try:
        return holds(template, options)
    except UsageError:
        return False  # so set, the template refuses the conversation


def _edits(text: str) -> Iterator[tuple[int, str, str]]:
    """(place, what stands there, what to try): conditions and their halves held open or shut, trims left out, dates
    fixed.
    """
    for found in _DATED.finditer(text):
        yield found.start(), found[0], repr(FIXED_DATE)
    for found in _CONDITION.finditer(text):
        said, start = found["said"], found.start("said")
        halves = [half for half in re.split(r"\s+(?:and|or)\s+", said) if half != said]
        for half, values in ((said, ("true", "false")), *((half, ("true",)) for half in halves)):
            if _RELEVANT.search(half) and "add_generation_prompt" not in half:
                yield from ((start + said.index(half), half, value) for value in values)
    for found in _TRIMMED.finditer(text):
        yield found.start(), found[0], ""
