"""Names what changed in the system text or at the front of the messages: each function says how a change shows its kind,
None where it does not.
"""

from __future__ import annotations

import re

from contextkit.ledger.changes.comparison import Comparison
from contextkit.ledger.changes.history import is_model_switch, message_blocks, recorded_model
from contextkit.ledger.changes.text_edits import (
    CHECKBOX,
    CLOCK,
    DATE,
    GIT_LINE,
    ID,
    MOMENT,
    PATH,
    SUBJECTS,
    TextEdit,
    added_with,
    front_label,
    is_about,
    is_front,
    text_edit,
    text_edit_between,
    varies_in,
)
from contextkit.ledger.changes.values import differs_only_in, texts_of
from contextkit.prompt.block import text_of
from contextkit.prompt.diff import Change
from contextkit.providers.histories import named_in
from contextkit.redact import redact_text


def clock(both: Comparison, change: Change) -> str | None:
    """Say that a time of day is another one."""
    if not varies_in(CLOCK, change) or varies_in(DATE, change):
        return None
    return f"{front_label(change)} differs only in a time of day"


def clock_added(both: Comparison, change: Change) -> str | None:
    """Say that a time of day was put in."""
    result = added_with(CLOCK, change)
    return f"a time of day ({result.strip()}) was put into {front_label(change)}" if result else None


def date(both: Comparison, change: Change) -> str | None:
    """Say that a date is another one."""
    if not varies_in(DATE, change):
        return None
    return f"{front_label(change)} differs only in a date, {both.pause_seconds / 3600:.1f} h after the call before"


def date_added(both: Comparison, change: Change) -> str | None:
    """Say that a date was put in."""
    result = added_with(DATE, change)
    return f"a date ({result.strip()}) was put into {front_label(change)}" if result else None


_SHORT_ID = re.compile(r"\b(?=\w*\d)\w{1,64}\b")

_MAX_ID_LINE = 120
"""Characters of a line that says one thing."""


def identifier(both: Comparison, change: Change) -> str | None:
    """Say that an id is another one."""
    if not varies_in(ID, change) or is_about(change, "place"):
        return None
    return f"{front_label(change)} differs only in an id, at character {text_edit(change).lead:,} of its text"


def labelled_identifier(both: Comparison, change: Change) -> str | None:
    """Say that a number or word under the label of an id is another one."""
    if not varies_in(_SHORT_ID, change) or not (is_about(change, "id") or _names_id(text_edit(change).was)):
        return None
    return f"{front_label(change)} differs only in what stands under a label that names an id"


def _names_id(line: str) -> bool:
    """Return whether a short line itself names an id: `<!-- build 4283fef -->`."""
    return len(line) <= _MAX_ID_LINE and bool(SUBJECTS["id"].search(line))


def identifier_added(both: Comparison, change: Change) -> str | None:
    """Say that an id was put in."""
    long, short = added_with(ID, change), added_with(_SHORT_ID, change)
    if not short or GIT_LINE.search(text_edit(change).now):
        return None
    is_named = len(long) >= 24 or bool(SUBJECTS["id"].search(text_edit(change).span[1]))
    return f"an id was put into {front_label(change)}" if is_named else None


_LABELLED = re.compile(r"^\s*(?:[-*]\s*)?([A-Za-z][\w '()/-]{0,40}):\s+(?=\S)")
"""`Working directory: /srv/a`."""

_COMMIT = re.compile(r"^\s*[-*]?\s*[0-9a-f]{7,40}\s\S")
"""A line of `git log --oneline`."""

_MAX_VALUE_WORDS = 14


def _is_environment(edit: TextEdit) -> bool:
    """Return whether every line that differs is part of a snapshot of the folder, the repository or the machine."""
    lines = edit.changed_lines
    texts = [text for text in (edit.was, edit.now) if text.strip()]
    is_path = differs_only_in(PATH, edit.was, edit.now) and all(map(PATH.search, texts))
    return bool(lines) and (is_path or all(_is_environment_line(section, line) for section, line in lines))


def _is_environment_line(section: str, line: str) -> bool:
    """Return whether a line is a value that a program reads from its surroundings, by its form or by its label.

    An instruction below a heading such as `# Committing changes with git` is none, nor is another fact that shares the
    list, such as the model's name.
    """
    if GIT_LINE.match(line) or _COMMIT.match(line):
        return True
    if SUBJECTS["snapshot"].search(section) and line.strip().startswith(section):
        return True  # the heading of a snapshot itself
    label = _LABELLED.match(line)
    value = line[label.end() :].strip() if label else line.strip()
    if _is_sentence(value):
        return False
    if label:
        return bool(SUBJECTS["place"].search(label[1]) or (SUBJECTS["snapshot"].search(section) and PATH.search(line)))
    return bool(SUBJECTS["snapshot"].search(section))


def _is_sentence(value: str) -> bool:
    """Return whether words instruct or explain, unlike a value: they end like a sentence, or are many."""
    words = value.split()
    return len(words) > _MAX_VALUE_WORDS or (len(words) > 3 and words[-1][-1] in ".!?")


def environment(both: Comparison, change: Change) -> str | None:
    """Say that a snapshot of the folder, the repository or the machine is another one."""
    if not is_front(change) or not _is_environment(text_edit(change)):
        return None
    return f"{front_label(change)} differs in what it says of the folder, the repository or the machine"


def recall(both: Comparison, change: Change) -> str | None:
    """Say that recalled or retrieved text is another one."""
    if not is_about(change, "memory"):
        return None
    return f"what was recalled changed in {front_label(change)}, in front of the history"


_NUMBER = re.compile(r"\d[\d,.]*")

_UNITS = r"(?:tokens?|steps?|turns?|iterations?|rounds?|attempts?|tool calls?|messages?|requests?)"

_PROGRESS_COUNT = re.compile(
    rf"\b{_UNITS}\b\W{{0,12}}\d|\d[\d,.]*\s*(?:more )?{_UNITS}\b|\b(?:remaining|left|used|budget)\b\D{{0,20}}\d",
    re.IGNORECASE,
)
"""A line that counts: `Turn 3 of 20`, `9,120 tokens left`, `remaining: 4`."""


def plan(both: Comparison, change: Change) -> str | None:
    """Say that a plan or list of tasks is another one."""
    if not is_front(change):
        return None
    edit = text_edit(change)
    is_list = bool(CHECKBOX.search(edit.was) or CHECKBOX.search(edit.now))
    return f"a plan or list of tasks changed in {front_label(change)}" if is_list or edit.is_about("plan") else None


def progress(both: Comparison, change: Change) -> str | None:
    """Say that numbers differ which count turns, steps or tokens."""
    edit = text_edit(change) if is_front(change) else None
    if edit is None or _NUMBER.sub("#", edit.was) != _NUMBER.sub("#", edit.now):
        return None
    pairs = zip(_NUMBER.findall(edit.was), _NUMBER.finditer(edit.now), strict=True)
    others = [now for was, now in pairs if was != now[0]]
    counted = [
        one
        for one in _PROGRESS_COUNT.finditer(edit.now)
        if any(one.start() <= now.start() < one.end() for now in others)
    ]
    if not counted or not all(any(one.start() <= now.start() < one.end() for one in counted) for now in others):
        return None
    return f"{front_label(change)} counts: {counted[0][0].strip()!r}"


_CONTENTS = re.compile(r"^\s*Contents of \S", re.MULTILINE)
"""The line that Claude Code puts in front of each instruction file."""

_OTHER_SECTION = re.compile(r"\s*(?:<[A-Za-z]|#+ [a-z]+[A-Z]\w*\s*$)")
"""What ends an instruction file that a program pasted in: a tag, or a heading that is a name of the program's own, such as
`# currentDate`."""


def instruction_file(both: Comparison, change: Change) -> str | None:
    """Say that lines of an instruction file are others."""
    heading = _instruction_file_heading(text_edit(change)) if is_front(change) else ""
    if not heading:
        return None
    return f"lines of an instruction file changed in {front_label(change)} ({redact_text(heading.strip())[:60]})"


def _instruction_file_heading(edit: TextEdit) -> str:
    """Return the heading of the instruction file that all lines that differ are in; empty where there is none."""
    lines = edit.changed_lines
    inner = {section for section, _ in lines} - {edit.section}
    if not lines or any(not section.startswith("#") or _OTHER_SECTION.match(section) for section in inner):
        return ""
    if SUBJECTS["file"].search(edit.section):
        return edit.section
    first = lines[0][0]
    if not all(span.strip() for span in edit.span) and first in inner and SUBJECTS["file"].search(first):
        return first  # the whole file came or went
    if SUBJECTS["memory"].search(edit.section):
        return ""
    starts = [match.start() for match in _CONTENTS.finditer(edit.before)]
    pasted = edit.before[starts[-1] :].strip().splitlines() if starts else [""]
    is_inside = SUBJECTS["file"].search(pasted[0]) and not any(map(_OTHER_SECTION.match, pasted))
    return pasted[0] if is_inside else ""


def volatile_end(both: Comparison, change: Change) -> str | None:
    """Say that the end of a marked block changed, and its long beginning stayed."""
    if len(change.was) != 1 or len(change.now) != 1 or change.was[0].marker is None:
        return None
    edit = text_edit(change)
    if not edit.is_late or not edit.is_at_end:
        return None
    share = int(100 * edit.share)
    return f"the end of a marked system block changed, its first {share} % stayed: one marker stands behind both"


def rebuilt_for_model(both: Comparison, change: Change) -> str | None:
    """Say that the system text changed with the model."""
    if not is_model_switch(both):
        return None
    return f"system text changed with the model, from {recorded_model(both.before)} to {recorded_model(both.after)}"


def instructions_left_out(both: Comparison, change: Change) -> str | None:
    """Say that a request goes on from a response and leaves its instructions out, which `previous_response_id` does not
    carry over (openai 3.54.0, types/responses/response_create_params.py).
    """
    if change.now or named_in(both.after.params) is None:
        return None
    return "the request goes on from a response and has no instructions: those of that response are not carried over"


def rebuilt(both: Comparison, change: Change) -> str | None:
    """Say how much of a system text stayed, whose change has no narrower kind."""
    return f"system text changed, {int(100 * text_edit(change).share)} % of it stayed"


_MAX_NAME, _MIN_BEHIND, _FRONT_SHARE = 80, 2_000, 0.25


def identity(both: Comparison, change: Change) -> str | None:
    """Say that a name near the front of the system text is another one."""
    is_at_front = change.is_first and (not change.at or both.before.blocks[change.at - 1].level != "system")
    if not is_at_front or is_model_switch(both) or not _is_name(*texts_of(change)):
        return None
    edit = text_edit(change)
    front, *names = _whole_words(edit)
    if not _NAME_LABEL.search(front) and (_SENTENCE_START.search(front) or not all(map(_NAME.fullmatch, names))):
        return None
    _, was, now = _whole_words(text_edit_between(*map(redact_text, texts_of(change))))
    return f"system text says {now!r} near its front where it said {was!r}, and agrees behind it"


_NAME = re.compile(r"(?:[A-Z][\w'’-]*(?:\. ?| )?){1,4}|[a-z]{2,3}[-_][A-Z]{2}")
"""Words with capitals, or a locale."""

_SENTENCE_START = re.compile(r"(?:^|[.!?:>]|^[#*-]+)\s*$")
"""Behind it any word has a capital."""

_NAME_LABEL = re.compile(
    r"(?:\b(?:tenant|locale|named|called|name is)\s*[:=]?|\b(?:user|customer|client|account|organi[sz]ation|company|language|persona"
    r"|character|name)(?: name)?\s*[:=])[\s\"'`<*]*$",
    re.IGNORECASE,
)
"""What stands right in front of a name, also of one that is written small."""


def _whole_words(edit: TextEdit) -> tuple[str, str, str]:
    """Return the line up to what differs, then what differs in whole words, as it was and as it is."""
    begin = edit.lead - len(edit.before)
    start = next((i for i in range(begin, 0, -1) if not edit.was[i - 1].isalnum()), 0)
    ends = (begin + len(span) for span in edit.span)
    was, now = (line[start : _word_end(line, end)] for line, end in zip((edit.was, edit.now), ends, strict=True))
    return edit.was[:start], was, now


def _word_end(line: str, at: int) -> int:
    return next((i for i in range(at, len(line)) if not line[i].isalnum()), len(line))


def _is_name(was: str, now: str) -> bool:
    edit = text_edit_between(was, now)
    is_short = max(map(len, edit.span)) <= _MAX_NAME and min(map(len, edit.span)) > 0
    is_other = any(differs_only_in(pattern, edit.was, edit.now) for pattern in (MOMENT, ID, PATH)) or any(
        map(edit.is_about, ("place", "id"))
    )
    is_near = edit.lead < _FRONT_SHARE * len(now) and edit.trail >= _MIN_BEHIND
    return is_short and is_near and not is_other and any(char.isalpha() for char in edit.span[1])


_MAX_TRAIL = 2
"""Characters, such as line ends, that may follow what was put in last."""


def reminder(both: Comparison, change: Change) -> str | None:
    """Say that a reminder, or words that stood in a message, came into the system text."""
    edit = text_edit(change)
    piece = edit.span[1].strip() if edit.is_growth else ""
    is_hoisted = len(piece) >= 20 and any(piece in text_of(block) for block in message_blocks(both.before))
    is_named = bool(piece or not edit.span[1].strip()) and edit.is_about("reminder")
    if not is_hoisted and not is_named:
        return None
    return f"system text {'grew' if piece else 'shrank'} by a piece that belongs between messages"


def grown(both: Comparison, change: Change) -> str | None:
    """Say that something came behind the system text, and nothing else changed."""
    edit = text_edit(change)
    if not edit.is_growth or edit.trail > _MAX_TRAIL or not (edit.before.strip() or change.at):
        return None
    n = len(edit.span[1])
    return f"system text grew by {n:,} characters at its end, as when a message of the role system is hoisted"
