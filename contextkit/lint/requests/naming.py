"""From what rules say to findings: which hazard a change is, where it stands, what is shown of it.

Takes evidence and the calls it was drawn from, gives `Finding`s. Knows no rule of its own but two codes: `CK000` for a
request that cannot be read, `CK001` for a broken prefix that no rule has named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from contextkit.ledger.calls import ModelCall
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, On, RecordedCall, RequestRule, Step
from contextkit.redact import redact

UNREADABLE, UNNAMED = "CK000", "CK001"
"""A body that cannot be read; a break that no rule knows."""
_SECRET = 4096
"""Bytes a secret is long, at most."""
WINDOW = 48
"""Bytes shown on either side of the first difference."""
_MISREAD = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError)
"""What a rule runs into when a body is not of the form its endpoint takes."""
_SAME_REASON = {
    "input_changed": "messages_changed",
    "text_format_changed": "unavailable",
    "previous_message_not_found": "unavailable",
    "comparison_response_not_found": "unavailable",
    "cache_hit": "unavailable",
}
Agreement = Literal["confirmed", "contradicted", "silent"]


@dataclass(frozen=True, slots=True)
class HazardRule:
    """One rule and the hazard it stands for."""

    hazard: Hazard
    """Whose code a finding carries."""
    rule: RequestRule
    """What to ask."""


class Rules:
    """The request rules of a catalogue, by what they are asked of, narrowest first."""

    def __init__(self, hazards: Iterable[Hazard]) -> None:
        self.hazards = {hazard.code: hazard for hazard in hazards}
        hazard_rules = [HazardRule(hazard, rule) for hazard in self.hazards.values() for rule in hazard.requests]
        ranked = sorted(hazard_rules, key=lambda one: (one.rule.rank, one.hazard.code))
        self._by_kind: dict[On, list[HazardRule]] = {
            kind: [one for one in ranked if one.rule.on == kind] for kind in _KINDS
        }

    def on(self, kind: On) -> Sequence[HazardRule]:
        """Rules asked of a change, a step, a call or a session."""
        return self._by_kind[kind]


_KINDS: tuple[On, ...] = ("change", "step", "call", "session")


def evidence_of(rule: HazardRule, *subject: object) -> Iterator[Evidence]:
    """What a rule says of its subject. A rule that cannot read what it is shown says that."""
    try:
        results = rule.rule.ask(*subject)
        yield from (results,) if isinstance(results, Evidence) else results or ()
    except _MISREAD as fault:
        where = f"{type(fault).__name__} in {rule.rule.ask.__module__.rpartition('.')[2]}"
        yield Evidence(
            f"{rule.hazard.code} could not judge this request, whose form it does not know ({where})", path=UNREADABLE
        )


def finding_of(
    rule: HazardRule,
    evidence: Evidence,
    sent: RecordedCall,
    session: str,
    turn: int,
    change: Change | None = None,
    tokens: int | None = None,
    usd: float | None = None,
) -> Finding:
    """What is reported of one piece of evidence."""
    is_misread = evidence.path == UNREADABLE
    code = UNREADABLE if is_misread else rule.hazard.code
    place = place_of(sent, session, turn, change, evidence)
    return Finding(code, evidence.message, place, "requests", cost_tokens=tokens, cost_usd=usd, verdict=sent.verdict)


def unnamed(step: Step, change: Change, session: str, tokens: int | None, usd: float | None) -> Finding:
    """The finding for a break that no rule has a name for."""
    place = place_of(step.after, session, step.turn, change, None)
    return Finding(
        UNNAMED,
        "prefix changed for a reason no rule knows",
        place,
        "requests",
        cost_tokens=tokens,
        cost_usd=usd,
        verdict=step.after.verdict,
    )


def unreadable(call: ModelCall, path: str, what: str, turn: int) -> Finding:
    """The finding for a body that is none."""
    place = RequestPlace(call.session, turn, call.id, "parameters", path, 0, "", "")
    return Finding(UNREADABLE, f"request cannot be read: {what}", place, "requests")


def place_of(
    sent: RecordedCall, session: str, turn: int, change: Change | None, evidence: Evidence | None
) -> RequestPlace:
    """Where it is: what the evidence names, else the block that changed."""
    path = evidence.path if evidence and evidence.path != UNREADABLE else ""
    was, now = (_covered(evidence.was), _covered(evidence.now)) if evidence else ("", "")
    if change is None:
        return RequestPlace(session, turn, sent.call.id, level_of(path), path or "body", 0, was, now)
    if not was and not now:
        was, now = windows(change)
    path = path or (change.now or change.was)[0].path
    return RequestPlace(session, turn, sent.call.id, change.level, path, change.offset, was, now)


def level_of(path: str) -> str:
    """The level a path stands on, by its first word.

    >>> level_of("messages[3].content[0].cache_control"), level_of("thinking.budget_tokens")
    ('messages', 'parameters')
    """
    return _LEVELS.get(path.replace("[", ".").partition(".")[0], "parameters")


_LEVELS = {
    "tools": "tools",
    "toolConfig": "tools",
    "system": "system",
    "instructions": "system",
    "systemInstruction": "system",
    "system_instruction": "system",
    "messages": "messages",
    "input": "messages",
    "contents": "messages",
}


def windows(change: Change) -> tuple[str, str]:
    """What stood and what stands around the first difference of a change, secrets covered."""
    was, now = (_window(blocks[0].body, change.offset) if blocks else b"" for blocks in (change.was, change.now))
    return was.decode("utf-8", "replace"), now.decode("utf-8", "replace")


def _window(body: bytes, offset: int) -> bytes:
    """The bytes around a place; what a secret that begins or ends outside has inside is covered, too."""
    start, stop = max(0, offset - WINDOW), offset + WINDOW
    first = max(0, start - _SECRET)
    return redact(body[first : stop + _SECRET])[start - first : stop - first]


def _covered(text: str) -> str:
    return redact(text.encode("utf-8", "replace")).decode() if text else text


def agreement(finding: Finding, hazard: Hazard) -> Agreement:
    """Compare a finding with the provider's own diagnosis of the call: `confirmed`, `contradicted`, or `silent` if it said
    nothing that can be compared.
    """
    verdict = _SAME_REASON.get(finding.verdict, finding.verdict)
    if not verdict or verdict == "unavailable" or not hazard.confirmed_by:
        return "silent"
    return "confirmed" if {verdict, finding.verdict} & set(hazard.confirmed_by) else "contradicted"


def verdict_of(response: object) -> str:
    """The provider's diagnosis in a response's JSON: `system_changed`, …; empty where it gave none.

    >>> verdict_of({"diagnostics": {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 9}}})
    'system_changed'
    >>> verdict_of({"prompt_cache_diagnostics": {"type": "cache_miss", "reason": "tools_changed"}})
    'tools_changed'
    """
    answer = response if isinstance(response, dict) else {}
    diagnosis, openai = answer.get("diagnostics"), answer.get("prompt_cache_diagnostics")
    reason = diagnosis.get("cache_miss_reason") if isinstance(diagnosis, dict) else None
    if isinstance(reason, dict):
        return str(reason.get("type") or "")
    return str(openai.get("reason") or openai.get("type") or "") if isinstance(openai, dict) else ""


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one hazard at one path of one conversation."""

    code: str
    """The hazard."""
    session: str
    """The conversation."""
    path: str
    """The block."""
    findings: tuple[Finding, ...]
    """In order of their turns."""

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First and last turn of each unbroken run."""
        runs: list[tuple[int, int]] = []
        for turn in sorted({_turn(finding) for finding in self.findings}):
            runs[-1:] = [(runs[-1][0], turn)] if runs and turn - runs[-1][1] <= 1 else [*runs[-1:], (turn, turn)]
        return tuple(runs)

    def __str__(self) -> str:
        ranges = ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in self.spans)
        return f"{self.code} {self.session} {self.path} turn{'s' if len(self.findings) > 1 else ''} {ranges}"


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Request findings by conversation, hazard and path, each group with its turns, in order of first sight."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        if isinstance(finding.place, RequestPlace):
            groups.setdefault((finding.code, finding.place.session, finding.place.path), []).append(finding)
    return [Group(*key, tuple(sorted(members, key=_turn))) for key, members in groups.items()]


def _turn(finding: Finding) -> int:
    return finding.place.turn if isinstance(finding.place, RequestPlace) else 0
