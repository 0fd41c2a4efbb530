"""identity-macro-in-prefix: a user's name, tenant or locale stands at the beginning of a prompt that all users share.

## What it does
A macro such as `{{user}}` or `{{char}}`, the tenant's name or the language is filled in within the first lines of the
system prompt. For one user the text never changes; between users it parts at that word.

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
- source: a person, tenant or locale value within the first part of a shared system text or template.
- requests: the system texts of several conversations part at one short span near the front and agree behind it.
- guard: not visible; one conversation alone shows nothing.
- provider: silent; a first call has nothing to be compared with, and later ones of the same user do not differ.

## References
- https://github.com/SillyTavern/SillyTavern/issues/5889
"""

from __future__ import annotations

from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.openings import Calls, Opening, openings
from contextkit.lint.rules.shapes import differs_only_in
from contextkit.lint.rules.wording import ID, MOMENT, PATH, between
from contextkit.lint.source.rule import Flow
from contextkit.lint.trace.rule import Evidence, RequestRule

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


def _is_name(was: str, now: str) -> bool:
    found = between(was, now)
    is_short = max(map(len, found.span)) <= _SPAN and min(map(len, found.span)) > 0
    is_other = any(differs_only_in(pattern, found.was, found.now) for pattern in (MOMENT, ID, PATH)) or found.is_about("place")
    is_near = found.lead < _FRONT * len(now) and found.trail >= _BEHIND
    return is_short and is_near and not is_other and any(char.isalpha() for char in found.span[1])


HAZARD = Hazard(
    "CKS11", "identity-macro-in-prefix", "B", "warning",
    source=(Flow(("person",), ("system",), "{source} is another one for each user and reaches {sink}: nothing behind it is shared"),),
    requests=(RequestRule("session", _by_person),),
)  # fmt: skip
