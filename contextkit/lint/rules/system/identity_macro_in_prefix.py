"""identity-macro-in-prefix: a user's name, tenant or locale stands at the beginning of a prompt that all users share.

## What it does
A macro such as `{{user}}` or `{{char}}`, the tenant's name or the language is filled in within the first lines of the
system prompt. For one user the text never changes; between users it parts at that word, and so it does within a
conversation that several characters, or several users, take part in.

## Why it costs you
Nothing behind the name can be shared, though it is the same for everybody. Each user's first call writes the whole
prompt at 1.25 times the input price, and with few calls per user the entries expire before they are read. Hosts that
cache by themselves need some shared length before anything counts: 1,024 tokens on OpenAI, up to 4,096 on Gemini.

## Example
    system = f"You help {user.name} of {tenant.name}, in {user.locale}. {HANDBOOK}"
    client.messages.create(model=MODEL, max_tokens=1024, system=system, messages=messages)

## Use instead
What all share comes first and is marked; who it is about follows:

    system = [
        {"type": "text", "text": HANDBOOK, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": f"You help {user.name} of {tenant.name}, in {user.locale}."},
    ]

Or leave the system prompt without it and name the user in the first message. With contextkit: a constant `system`,
whose end is marked, and `context.notice(f"The user is {user.name}.")` first of all.

## Detected by
- source: a person, tenant or locale value in the system text or its template, known by its name; but not at the very end
  of it, in an f-string handed over as it is or a block behind the last marker.
- requests: the system texts of several conversations part at one short span near the front and agree behind it;
  or within one, a name, a tenant or a locale there is another one than in the call before.
- guard: only within a conversation; what tells one user's from another's shows in no single one.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI) within a conversation; silent between two, since a first
  call has nothing to be compared with.

## References
- https://github.com/SillyTavern/SillyTavern/issues/5889
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import ID, MOMENT, PATH, Edited, between, edited
from contextkit.lint.rules.history import is_switch
from contextkit.lint.rules.openings import Calls, Opening, openings
from contextkit.lint.rules.shapes import differs_only_in, texts_of
from contextkit.lint.source.rule import Flow

_SPAN, _BEHIND, _FRONT = 80, 2_000, 0.25


def _by_person(calls: Calls) -> Iterator[Evidence]:
    """The first conversation whose system text parts from another's at a few words near the front."""
    first: dict[tuple[str, ...], Opening] = {}
    for opening in openings(calls):
        other = first.setdefault(opening.kind, opening)
        if _is_name(other.text, opening.text):
            was, now = between(other.text, opening.text).span
            text = f"system text parts from that of {other.name} at a few words near its front and agrees behind them"
            yield Evidence(text, opening.path, was, now, opening.sent)
            return


def _by_call(step: Step, change: Change) -> Evidence | None:
    """Within a conversation: the words near the front of the system text that differ are names on either side."""
    is_front = (
        change.level == "system"
        and change.is_first
        and (not change.at or step.before.blocks[change.at - 1].level != "system")
    )
    if not is_front or is_switch(step) or not _is_name(*texts_of(change)):
        return None
    found = edited(change)
    front, *names = _in_words(found)
    if not _LABEL.search(front) and (_OPENS.search(front) or not all(map(_NAME.fullmatch, names))):
        return None
    return Evidence(
        f"system text says {names[1]!r} near its front where the call before said {names[0]!r}, and agrees behind it"
    )


_NAME = re.compile(r"(?:[A-Z][\w'’-]*(?:\. ?| )?){1,4}|[a-z]{2,3}[-_][A-Z]{2}")
"""Words with capitals, or a locale."""
_OPENS = re.compile(r"(?:^|[.!?:>]|^[#*-]+)\s*$")
"""Behind it any word has a capital."""
_LABEL = re.compile(
    r"(?:\b(?:tenant|locale|named|called|name is)\s*[:=]?|\b(?:user|customer|client|account|organi[sz]ation|company|language|persona"
    r"|character|name)(?: name)?\s*[:=])[\s\"'`<*]*$",
    re.IGNORECASE,
)
"""What stands right in front of a name, also of one that is written small."""


def _in_words(found: Edited) -> tuple[str, str, str]:
    """The line up to what differs, then what differs in whole words, as it was and as it is."""
    begin = found.lead - len(found.before)
    start = next((i for i in range(begin, 0, -1) if not found.was[i - 1].isalnum()), 0)
    ends = (begin + len(span) for span in found.span)
    was, now = (line[start : _word_end(line, end)] for line, end in zip((found.was, found.now), ends, strict=True))
    return found.was[:start], was, now


def _word_end(line: str, at: int) -> int:
    return next((i for i in range(at, len(line)) if not line[i].isalnum()), len(line))


def _is_name(was: str, now: str) -> bool:
    found = between(was, now)
    is_short = max(map(len, found.span)) <= _SPAN and min(map(len, found.span)) > 0
    is_other = any(differs_only_in(pattern, found.was, found.now) for pattern in (MOMENT, ID, PATH)) or found.is_about(
        "place"
    )
    is_near = found.lead < _FRONT * len(now) and found.trail >= _BEHIND
    return is_short and is_near and not is_other and any(char.isalpha() for char in found.span[1])


HAZARD = Hazard(
    "CKS11",
    "identity-macro-in-prefix",
    "B",
    "warning",
    source=(
        Flow(
            ("person",),
            ("system",),
            "{source} is another one for each user and reaches {sink}: nothing behind it is shared",
        ),
    ),
    requests=(RequestRule("session", _by_person), RequestRule("change", _by_call, 85)),
    confirmed_by=("system_changed", "input_changed"),
)
