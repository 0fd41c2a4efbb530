"""Request rules on the system prompt (`CKS…`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise

from contextkit.ledger.parsed_call import ParsedCall
from contextkit.lint.requests.history import (
    Opening,
    is_model_switch,
    message_blocks,
    new_message_blocks,
    openings,
    recorded_model,
)
from contextkit.lint.requests.rule import Calls, Change, Evidence, RequestRule, Step
from contextkit.lint.requests.text_edits import (
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
    is_new_user_turn,
    text_edit,
    text_edit_between,
    varies_in,
)
from contextkit.lint.requests.values import differs_only_in, texts_of
from contextkit.prompt.block import text_of
from contextkit.providers.histories import named_in

# CKS01 clock-in-system
# ---------------------------------------------------------------------------------------------------------------------


def _clock_changed(step: Step, change: Change) -> Evidence | None:
    if not varies_in(CLOCK, change) or varies_in(DATE, change):
        return None
    return Evidence(f"{front_label(change)} differs only in a time of day")


def _clock_added(step: Step, change: Change) -> Evidence | None:
    result = added_with(CLOCK, change)
    return Evidence(f"a time of day ({result.strip()}) was put into {front_label(change)}") if result else None


# CKS02 date-rollover
# ---------------------------------------------------------------------------------------------------------------------


def _date_changed(step: Step, change: Change) -> Evidence | None:
    if not varies_in(DATE, change):
        return None
    return Evidence(
        f"{front_label(change)} differs only in a date, {step.gap_seconds / 3600:.1f} h after the call before"
    )


def _date_added(step: Step, change: Change) -> Evidence | None:
    result = added_with(DATE, change)
    return Evidence(f"a date ({result.strip()}) was put into {front_label(change)}") if result else None


# CKS03 id-or-nonce-in-prefix
# ---------------------------------------------------------------------------------------------------------------------

_SHORT_ID = re.compile(r"\b(?=\w*\d)\w{1,64}\b")

_MAX_ID_LINE = 120
"""Characters of a line that says one thing."""


def _id_changed(step: Step, change: Change) -> Evidence | None:
    if not varies_in(ID, change) or is_about(change, "place"):
        return None
    return Evidence(f"{front_label(change)} differs only in an id, at character {text_edit(change).lead:,} of its text")


def _counter_changed(step: Step, change: Change) -> Evidence | None:
    if not varies_in(_SHORT_ID, change) or not (is_about(change, "id") or _names_id(text_edit(change).was)):
        return None
    return Evidence(f"{front_label(change)} differs only in what stands under a label that names an id")


def _names_id(line: str) -> bool:
    """Return whether a short line itself names one: `<!-- build 4283fef -->`."""
    return len(line) <= _MAX_ID_LINE and bool(SUBJECTS["id"].search(line))


def _id_added(step: Step, change: Change) -> Evidence | None:
    long, short = added_with(ID, change), added_with(_SHORT_ID, change)
    if not short or GIT_LINE.search(text_edit(change).now):
        return None
    is_named = len(long) >= 24 or bool(SUBJECTS["id"].search(text_edit(change).span[1]))
    return Evidence(f"an id was put into {front_label(change)}") if is_named else None


# CKS04 env-snapshot-in-system
# ---------------------------------------------------------------------------------------------------------------------

_LABELLED = re.compile(r"^\s*[-*]?\s*([A-Za-z][\w '()/-]{0,40}):\s+(?=\S)")
"""`Working directory: /srv/a`."""

_COMMIT = re.compile(r"^\s*[-*]?\s*[0-9a-f]{7,40}\s\S")
"""A line of `git log --oneline`."""

_MAX_VALUE_WORDS = 14

_MIN_SHARED = 0.5
"""Share of two system texts from which on one would read the other's, were it not for their surroundings."""


def _is_environment(edit: TextEdit) -> bool:
    """Return whether every line that differs is part of a snapshot of the folder, the repository or the machine."""
    lines = edit.changed_lines
    texts = [text for text in (edit.was, edit.now) if text.strip()]
    is_path = differs_only_in(PATH, edit.was, edit.now) and all(map(PATH.search, texts))
    return bool(lines) and (is_path or all(_is_environment_line(section, line) for section, line in lines))


def _is_environment_line(section: str, line: str) -> bool:
    """Whether a line is a value that a program reads from its surroundings, by its form or by what it is labelled.

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


def _environment_changed(step: Step, change: Change) -> Evidence | None:
    if not is_front(change) or not _is_environment(text_edit(change)):
        return None
    return Evidence(f"{front_label(change)} differs in what it says of the folder, the repository or the machine")


def _environment_between_conversations(calls: Calls) -> Iterator[Evidence]:
    """The first conversation whose system text differs from another's in nothing but its surroundings."""
    first: dict[tuple[str, ...], Opening] = {}
    for opening in openings(calls):
        other = first.setdefault(opening.kind, opening)
        edit = text_edit_between(other.text, opening.text)
        if other.text != opening.text and _is_environment(edit) and edit.share > _MIN_SHARED:
            text = f"system text agrees with that of {other.name} but for the folder, the repository or the machine"
            yield Evidence(text, opening.path, edit.was[:100], edit.now[:100], opening.sent)
            return


# CKS05 memory-recall-in-front
# ---------------------------------------------------------------------------------------------------------------------


def _recall_changed(step: Step, change: Change) -> Evidence | None:
    if not is_about(change, "memory"):
        return None
    return Evidence(f"what was recalled changed in {front_label(change)}, in front of the history")


def _system_changes_per_turn(step: Step, change: Change) -> Evidence | None:
    """The system text changes whenever the user spoke, and never inside a run of tool calls."""
    if change.level != "system" or not change.is_first or not is_new_user_turn(step):
        return None
    pairs = list(pairwise(step.earlier[-20:]))
    with_user = [_has_other_system(a, b) for a, b in pairs if _has_user_turn(a, b)]
    silent = [_has_other_system(a, b) for a, b in pairs if not _has_user_turn(a, b)]
    if len(with_user) < 2 or not all(with_user) or not silent or any(silent):
        return None
    return Evidence(f"system text changed at each of the last {len(with_user) + 1} user turns and never between them")


def _has_other_system(before: ParsedCall, after: ParsedCall) -> bool:
    one, other = ([block.body for block in sent.blocks if block.level == "system"] for sent in (before, after))
    return one != other


def _has_user_turn(before: ParsedCall, after: ParsedCall) -> bool:
    return is_new_user_turn(Step(before, after, 0, (), ()))


# CKS06 plan-or-todo-in-system
# ---------------------------------------------------------------------------------------------------------------------

_PLANNING_TOOL = re.compile(rb'"name":\s*"[^"]*(?:todo|plan|task|checklist)[^"]*"', re.IGNORECASE)

_NUMBER = re.compile(r"\d[\d,.]*")

_UNITS = r"(?:tokens?|steps?|turns?|iterations?|rounds?|attempts?|tool calls?|messages?|requests?)"

_PROGRESS_COUNT = re.compile(
    rf"\b{_UNITS}\b\W{{0,12}}\d|\d[\d,.]*\s*(?:more )?{_UNITS}\b|\b(?:remaining|left|used|budget)\b\D{{0,20}}\d",
    re.IGNORECASE,
)
"""A line that counts: `Turn 3 of 20`, `9,120 tokens left`, `remaining: 4`."""


def _plan_changed(step: Step, change: Change) -> Evidence | None:
    if not is_front(change):
        return None
    edit = text_edit(change)
    is_list = bool(CHECKBOX.search(edit.was) or CHECKBOX.search(edit.now))
    return (
        Evidence(f"a plan or list of tasks changed in {front_label(change)}")
        if is_list or edit.is_about("plan")
        else None
    )


def _progress_count_changed(step: Step, change: Change) -> Evidence | None:
    """Nothing but numbers differ, and they count turns, steps or tokens."""
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
    return Evidence(f"{front_label(change)} counts: {counted[0][0].strip()!r}")


def _system_changed_after_planning(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not any(
        block.type == "call" and _PLANNING_TOOL.search(block.body) for block in new_message_blocks(step)
    ):
        return None
    return Evidence("system text changed right after a call of the tool that writes the plan")


# CKS07 instruction-file-reload
# ---------------------------------------------------------------------------------------------------------------------

_CONTENTS = re.compile(r"^\s*Contents of \S", re.MULTILINE)
"""The line that Claude Code puts in front of each instruction file."""

_OTHER_SECTION = re.compile(r"\s*(?:<[A-Za-z]|#+ [a-z]+[A-Z]\w*\s*$)")
"""What ends an instruction file that a program pasted in: a tag, or a heading that is a name of the program's own, such as
`# currentDate`."""


def _instruction_file_changed(step: Step, change: Change) -> Evidence | None:
    heading = _instruction_file_heading(text_edit(change)) if is_front(change) else ""
    if not heading:
        return None
    return Evidence(f"lines of an instruction file changed in {front_label(change)} ({heading.strip()[:60]})")


def _instruction_file_heading(edit: TextEdit) -> str:
    """The heading that names the instruction file in which all lines that differ are; empty where there is none."""
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


# CKS08 static-and-volatile-one-block
# ---------------------------------------------------------------------------------------------------------------------


def _static_and_volatile_one_block(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or len(change.was) != 1 or len(change.now) != 1 or change.was[0].marker is None:
        return None
    edit = text_edit(change)
    if not edit.is_late or not edit.is_at_end:
        return None
    return Evidence(
        f"the end of a marked system block changed, its first {int(100 * edit.share)} % stayed: one marker stands behind both"
    )


# CKS09 middleware-order
# ---------------------------------------------------------------------------------------------------------------------


def _middleware_order(step: Step, change: Change) -> Evidence | None:
    """A block of the system that differs stands in front of one that is marked and did not change."""
    if change.level != "system" or any(block.marker is not None for block in change.was):
        return None
    system = [(i, block) for i, block in enumerate(step.before.blocks) if block.level == "system"]
    last = max((i for i, block in system if block.marker is not None), default=-1)
    if last < change.at + len(change.was) or change.at == system[0][0]:
        return None
    return Evidence(f"a section of the system changed in front of the marked block {step.before.blocks[last].path}")


# CKS10 system-prompt-rebuilt
# ---------------------------------------------------------------------------------------------------------------------


def _system_changed_with_model(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not is_model_switch(step):
        return None
    return Evidence(
        f"system text changed with the model, from {recorded_model(step.before)} to {recorded_model(step.after)}"
    )


def _instructions_left_out(step: Step, change: Change) -> Evidence | None:
    """`previous_response_id` without `instructions` (openai 3.54.0, types/responses/response_create_params.py: not
    carried over).
    """
    if change.level != "system" or change.now or named_in(step.after.params) is None:
        return None
    return Evidence(
        "the request goes on from a response and has no instructions: those that response was asked with are not carried over"
    )


def _system_changed(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not change.is_first:
        return None
    return Evidence(
        f"system text changed, {int(100 * text_edit(change).share)} % of it stayed; only its shape is known, not what rebuilt it"
    )


# CKS11 identity-macro-in-prefix
# ---------------------------------------------------------------------------------------------------------------------

_MAX_NAME, _MIN_BEHIND, _FRONT_SHARE = 80, 2_000, 0.25


def _identity_between_conversations(calls: Calls) -> Iterator[Evidence]:
    """The first conversation whose system text parts from another's at a few words near the front."""
    first: dict[tuple[str, ...], Opening] = {}
    for opening in openings(calls):
        other = first.setdefault(opening.kind, opening)
        if _is_name(other.text, opening.text):
            was, now = text_edit_between(other.text, opening.text).span
            text = f"system text parts from that of {other.name} at a few words near its front and agrees behind them"
            yield Evidence(text, opening.path, was, now, opening.sent)
            return


def _identity_within_conversation(step: Step, change: Change) -> Evidence | None:
    """Within a conversation: the words near the front of the system text that differ are names on either side."""
    is_front = (
        change.level == "system"
        and change.is_first
        and (not change.at or step.before.blocks[change.at - 1].level != "system")
    )
    if not is_front or is_model_switch(step) or not _is_name(*texts_of(change)):
        return None
    edit = text_edit(change)
    front, *names = _whole_words(edit)
    if not _NAME_LABEL.search(front) and (_SENTENCE_START.search(front) or not all(map(_NAME.fullmatch, names))):
        return None
    return Evidence(
        f"system text says {names[1]!r} near its front where the call before said {names[0]!r}, and agrees behind it"
    )


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
    """The line up to what differs, then what differs in whole words, as it was and as it is."""
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


# CKS12 prompt-variant-fragmentation
# ---------------------------------------------------------------------------------------------------------------------


def _variants_alternate(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not change.is_first:
        return None
    edit = text_edit(change)
    if not edit.was.strip() or not edit.now.strip() or edit.is_growth:
        return None
    now = _system_bodies(step.after)
    n_calls_back = next(
        (back for back, sent in enumerate(reversed(step.earlier[:-1]), 2) if _system_bodies(sent) == now), 0
    )
    return (
        Evidence(f"system text is again the one of {n_calls_back} calls before: variants alternate in one conversation")
        if n_calls_back
        else None
    )


def _variant_again(step: Step, change: Change) -> Evidence | None:
    """Another text where one has come back before; asked last, since a text may come and go for a reason of its own."""
    if change.level != "system" or not change.is_first:
        return None
    texts = [key for key, _ in groupby(map(_system_bodies, step.earlier[-_N_RECENT:]))]
    n_texts = sum(text not in texts[:place] for place, text in enumerate(texts))
    if n_texts == len(texts):
        return None
    return Evidence(
        f"system text changed for another time, and {n_texts} texts have taken turns before: variants of one prompt"
    )


_N_RECENT = 40
"""Calls that are looked back at."""


def _variant_label_changed(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or not text_edit(change).is_about("variant"):
        return None
    return Evidence("system text changed at a label that names a variant of the prompt")


def _system_bodies(sent: ParsedCall) -> list[bytes]:
    return [block.body for block in sent.blocks if block.level == "system"]


# CKS13 mid-system-inlined
# ---------------------------------------------------------------------------------------------------------------------

_MAX_TRAIL = 2
"""Characters, such as line ends, that may follow what was put in last."""


def _reminder_in_system(step: Step, change: Change) -> Evidence | None:
    """A reminder, or words that stood in a message, arrive in the system text."""
    if change.level != "system":
        return None
    edit = text_edit(change)
    piece = edit.span[1].strip() if edit.is_growth else ""
    is_hoisted = len(piece) >= 20 and any(piece in text_of(block) for block in message_blocks(step.before))
    is_named = bool(piece or not edit.span[1].strip()) and edit.is_about("reminder")
    if not is_hoisted and not is_named:
        return None
    return Evidence(f"system text {'grew' if piece else 'shrank'} by a piece that belongs between messages")


def _system_grew(step: Step, change: Change) -> Evidence | None:
    """Shape only: something came behind the system text, nothing else changed."""
    if change.level != "system" or not change.is_first:
        return None
    edit = text_edit(change)
    if not edit.is_growth or edit.trail > _MAX_TRAIL or not (edit.before.strip() or change.at):
        return None
    return Evidence(
        f"system text grew by {len(edit.span[1]):,} characters at its end, as when a message of the role system is hoisted"
    )


RULES: Mapping[str, tuple[RequestRule, ...]] = {
    "CKS01": (
        RequestRule("change", _clock_changed, 10),
        RequestRule("change", _clock_added, 40),
    ),
    "CKS02": (
        RequestRule("change", _date_changed, 9),
        RequestRule("change", _date_added, 42),
    ),
    "CKS03": (
        RequestRule("change", _id_changed, 12),
        RequestRule("change", _counter_changed, 28),
        RequestRule("change", _id_added, 43),
    ),
    "CKS04": (
        RequestRule("change", _environment_changed, 26),
        RequestRule("session", _environment_between_conversations),
    ),
    "CKS05": (
        RequestRule("change", _recall_changed, 22),
        RequestRule("change", _system_changes_per_turn, 50),
    ),
    "CKS06": (
        RequestRule("change", _plan_changed, 24),
        RequestRule("change", _progress_count_changed, 26),
        RequestRule("change", _system_changed_after_planning, 45),
    ),
    "CKS07": (RequestRule("change", _instruction_file_changed, 20),),
    "CKS08": (RequestRule("change", _static_and_volatile_one_block, 72),),
    "CKS09": (RequestRule("change", _middleware_order, 70),),
    "CKS10": (
        RequestRule("change", _system_changed_with_model, 50),
        RequestRule("change", _instructions_left_out, 20),
        RequestRule("change", _system_changed, 90),
    ),
    "CKS11": (
        RequestRule("session", _identity_between_conversations),
        RequestRule("change", _identity_within_conversation, 85),
    ),
    "CKS12": (
        RequestRule("change", _variants_alternate, 15),
        RequestRule("change", _variant_label_changed, 25),
        RequestRule("change", _variant_again, 86),
    ),
    "CKS13": (
        RequestRule("change", _reminder_in_system, 14),
        RequestRule("change", _system_grew, 80),
    ),
}
"""Code → its rules."""
