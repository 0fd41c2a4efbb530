"""Finds the lines of a text that were edited, the heading they are under, and what kind of value they hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from contextkit.ledger.changes.values import differing_span, differs_only_in, texts_of
from contextkit.prompt.diff import Change

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?"
    r"|dec(?:ember)?)"
)

_DAY = r"(?:mon|tue(?:s)?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?"

_DATE = (
    rf"(?:\b{_DAY},?\s+)?(?:\b\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?!\d)|\b\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}\b"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\.?(?:\s+of)?\s+{_MONTH}\b(?:,?\s+\d{{4}}\b)?"
    rf"|\b{_MONTH}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}}\b)?)"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b20\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\b"
)

_TIME = (
    r"(?:\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?\s*(?:[ap]\.?m\b\.?)?(?:\s*(?:Z\b|UTC\b|GMT\b|[+-]\d{2}:?\d{2}\b))?"
    r"|\b\d{1,2}\s*(?:[ap]m\b|[ap]\.m\.|h\s?[0-5]\d\b|o'clock\b))"
)

_EPOCH = r"\b1[4-9]\d{8}(?:\d{3}){0,3}(?:\.\d+)?\b"

_AGO = r"\b\d+(?:\.\d+)?\s*(?:s|secs?|seconds?|mins?|minutes?|hours?|hrs?)\b(?:\s+(?:ago|old|elapsed|left|remaining))?"

DATE = re.compile(_DATE, re.IGNORECASE)
"""A day, in the ways people and programs write it."""

CLOCK = re.compile(rf"(?:{_DATE})?[T\s,]*(?:at\s+)?{_TIME}|{_EPOCH}|{_AGO}", re.IGNORECASE)
"""A time of day, with its date where it has one; seconds since 1970; an age."""

MOMENT = re.compile(rf"{CLOCK.pattern}|{_DATE}", re.IGNORECASE)
"""A time of day or a day."""

ID = re.compile(
    r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b(?=[0-9a-z_-]*\d)(?:[a-z]{1,8}[_-])*[0-9a-f]{8,128}\b"
    r"|\b(?=[0-9a-z]*\d[0-9a-z]*\d)(?=[0-9a-z]*[a-z])[0-9a-z]{12,128}\b(?![./\\])|\b\d{9,40}\b",
    re.IGNORECASE,
)
"""A generated value: a uuid, a run of hexadecimal digits, a long token of letters and digits, a long number."""

SUBJECTS: dict[str, re.Pattern[str]] = {
    "id": re.compile(
        r"\b(?:request|trace|session|run|span|correlation|conversation|billing|turn)[ _-]?(?:id|header|key)?\b|\bid\b"
        r"|nonce|uuid|\bhash\b|checksum|fingerprint|\bbuild\b|\bx-[\w-]+",
        re.IGNORECASE,
    ),
    "place": re.compile(
        r"\bcwd\b|(?:working|current|root|home) (?:dir|folder)|\bdirectory\b|\bfolder\b|workspace|\brepo(?:sitory)?\b"
        r"|\bgit\b|\bbranch\b|\bcommit\b|platform|operating system|\bos\b|host ?name|\bmachine\b|\bterminal\b|\bshell\b"
        r"|environment|\benv\b|file tree|\bfiles:|file list",
        re.IGNORECASE,
    ),
    "memory": re.compile(
        r"memor(?:y|ies)|recall|retriev|remember"
        r"|relevant (?:context|document|passage|fact|info|snippet|note|knowledge)"
        r"|<context\b|knowledge base"
        r"|search results|past conversation|previous conversation|you know|\bdocuments?\b",
        re.IGNORECASE,
    ),
    "plan": re.compile(
        r"\bto-?dos?\b|todo_?list|\btasks?\b|\bplan\b|checklist|scratchpad|\bprogress\b|current state|\bin_progress\b",
        re.IGNORECASE,
    ),
    "file": re.compile(
        r"\b(?:agents?|claude|gemini|qwen|codex|conventions|rules|instructions|copilot-instructions)(?:\.local|\.override)?\.?md\b"
        r"|\b[\w-]+\.mdc\b|(?:cursor|windsurf|cline)rules|(?:project|custom|user|workspace|repo\w*) (?:instructions|rules)"
        r"|instructions? file",
        re.IGNORECASE,
    ),
    "snapshot": re.compile(
        r"\benv(?:ironment)?\b|\bcwd\b|(?:working|current|root|home) (?:dir|folder)|git ?status|^\W*status\b|^\W*changes\b"
        r"|(?:repo(?:sitory)?|workspace|project|directory|folder|file) ?(?:info|layout|list|listing|state|status|structure|tree)"
        r"|^\W*(?:current )?(?:branch|directory|folder|files?|workspace|repository|git|platform|system information)\W*$"
        r"|recent commits|operating system|host ?name",
        re.IGNORECASE,
    ),
    "reminder": re.compile(r"reminder|\bnotice\b|<system[-_ ]", re.IGNORECASE),
    "variant": re.compile(
        r"\bvariant\b|\bexperiment\b|\bbucket\b|(?:prompt|template)[ _-]?version|\ba/?b[ _-]?test|\bcohort\b",
        re.IGNORECASE,
    ),
}
"""Subject → the words of a heading or label that name it."""

CHECKBOX = re.compile(r"^\s*(?:[-*]\s*)?(?:\[[ xX~>-]\]|[☐☑✓✔✗])", re.MULTILINE)
"""Items of a list of tasks."""

GIT_LINE = re.compile(r"^(?:[ MADRCU?!]{2} |\s*(?:modified|deleted|new file|renamed):)\s*\S+$", re.MULTILINE)
"""A line of `git status`."""

PATH = re.compile(r"(?:^|[\s\"'`(=:])(?:[A-Za-z]:\\|~?/)[\w.@+~-]+(?:[\\/][\w.@+~ -]+)*")
"""An absolute path."""

_HEADING = re.compile(r"^\s*(?:#{1,6}\s|<[A-Za-z]|\*\*|(?:[^.!?]|\.(?=\w)){1,100}:\s*$)")

_CLOSING_TAG = re.compile(r"\s*</[\w-]+>\s*$")
"""A line that only ends a section: where the last line before it came or went, it is the first that differs."""

_TAG = re.compile(r"\s*<[^>]*>?")

_LABEL = re.compile(r"^\s*(?:[-*]\s*)?([A-Za-z][\w '()/-]{0,40}):\s")

_HEADING_WINDOW = 6_000

_USER_ROLES = ("user", "system", "developer")

_MIN_SHARE = 0.3
"""Share of a message that stays when it was edited; where less does, another message stands there."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """What differs between two texts, in whole lines."""

    was: str
    """The lines that stood there."""
    now: str
    """The lines that stand there."""
    before: str
    """What both say in front of them."""
    behind: str
    """What both say behind them."""
    lead: int
    """Characters that agree in front."""
    trail: int
    """Characters that agree behind."""
    heading: str
    """The heading the lines stand below, and the labels in them."""
    section: str
    """The nearest heading in front of the lines alone; empty where there is none."""
    span: tuple[str, str]
    """What differs, to the letter."""

    @property
    def is_growth(self) -> bool:
        """Return whether something was only put in."""
        return not self.span[0].strip() and bool(self.span[1].strip())

    @property
    def is_at_end(self) -> bool:
        """Return whether hardly anything follows that is equal."""
        return self.trail <= 80

    @property
    def is_late(self) -> bool:
        """Return whether at least half of the text comes before it."""
        return self.lead >= max(map(len, self.span)) + self.trail

    @property
    def share(self) -> float:
        """Return the share of the longer text that stayed."""
        return (self.lead + self.trail) / max(1, self.lead + self.trail + max(map(len, self.span)))

    @property
    def changed_lines(self) -> list[tuple[str, str]]:
        """Return heading and text of each line that only one side has, blank lines left out; of all lines where both
        sides have the same ones in another order.
        """
        sides = [_with_headings(text, self.section) for text in (self.was, self.now)]
        texts = [{line for _, line in side} for side in sides]
        one_sided = [
            pair for side, other in zip(sides, reversed(texts), strict=True) for pair in side if pair[1] not in other
        ]
        return one_sided or [*sides[0], *sides[1]]

    def is_about(self, subject: str) -> bool:
        """Return whether heading or labels name a subject of `SUBJECTS`."""
        return bool(SUBJECTS[subject].search(self.heading))


def text_edit(change: Change) -> TextEdit:
    """Return the edit of the text of a change."""
    return text_edit_between(*texts_of(change))


@lru_cache(maxsize=64)
def text_edit_between(was: str, now: str) -> TextEdit:
    """Return the edit between two texts.

    >>> text_edit_between("# Folder\\nyou work in /a\\nend", "# Folder\\nyou work in /b\\nend").heading
    '# Folder'
    """
    start, one, other = differing_span(was, now)
    rest = len(was) - start - len(one)
    line = was.rfind("\n", 0, start) + 1
    ends = [text.find("\n", len(text) - rest) if rest else -1 for text in (was, now)]
    behind = was[ends[0] :] if ends[0] >= 0 else ""
    lines = tuple(text[line : end if end >= 0 else len(text)] for text, end in zip((was, now), ends, strict=True))
    front = was[max(0, line - _HEADING_WINDOW) : line].splitlines()
    section = next((_label_of(text).strip() for text in reversed(front) if _HEADING.match(text)), "")
    heading = _heading(section, lines)
    return TextEdit(lines[0], lines[1], was[:line], behind, start, rest, heading, section, (one, other))


def _heading(section: str, lines: tuple[str, ...]) -> str:
    """Join the nearest heading in front with the headings and labels of the lines themselves."""
    inside = [label for text in lines for line in text.splitlines()[:200] if (label := _label_of(line))]
    return "\n".join(dict.fromkeys([section, *inside])).strip()


def _with_headings(text: str, section: str) -> list[tuple[str, str]]:
    """Pair each line of a text with the heading it is below; headings are below themselves."""
    pairs: list[tuple[str, str]] = []
    for line in text.splitlines():
        if _HEADING.match(line) and not _CLOSING_TAG.match(line):
            section = _label_of(line).strip()
        if line.strip() and not _CLOSING_TAG.match(line):
            pairs.append((section, line))
    return pairs


def _label_of(line: str) -> str:
    if _HEADING.match(line):
        tag = _TAG.match(line)
        return tag[0] if tag else line.strip()[:200]
    label = _LABEL.match(line)
    return label[1] if label else ""


def is_front(change: Change) -> bool:
    """Return whether a change is in text at the front: of the system level, or of the first two messages of the user."""
    blocks = (*change.was, *change.now)
    if change.level == "system":
        return True
    is_near = change.level == "messages" and all(
        block.message <= 1 and block.type == "text" and block.role in _USER_ROLES for block in blocks
    )
    return (
        is_near
        and bool(change.now)
        and (not change.was or text_edit(change).share >= _MIN_SHARE or _is_same_heading(change))
    )


def _is_same_heading(change: Change) -> bool:
    """Return whether the same heading stands over another text, as over what is recalled anew."""
    was, now = (text.partition("\n")[0].strip() for text in texts_of(change))
    return len(change.was) == len(change.now) and was == now and bool(_HEADING.match(was))


def varies_in(pattern: re.Pattern[str], change: Change) -> bool:
    """Return whether a text at the front differs in nothing but stretches of `pattern`."""
    if not is_front(change):
        return False
    edit = text_edit(change)
    return differs_only_in(pattern, edit.was, edit.now)


def added_with(pattern: re.Pattern[str], change: Change) -> str:
    """Return what matches `pattern` in a line or two that were put in at the front; empty where nothing does."""
    if not is_front(change):
        return ""
    edit = text_edit(change)
    text = edit.span[1].strip() if edit.is_growth else ""
    hit = pattern.search(text) if len(text) <= 200 and text.count("\n") <= 2 else None
    return hit[0] if hit else ""


def is_about(change: Change, subject: str) -> bool:
    """Return whether what changed at the front stands under a heading or label of a subject."""
    return is_front(change) and text_edit(change).is_about(subject)


def front_label(change: Change) -> str:
    """Name the place of a change at the front, for a message."""
    return (
        "system text"
        if change.level == "system"
        else f"the message at the front ({(change.now or change.was)[0].path})"
    )
