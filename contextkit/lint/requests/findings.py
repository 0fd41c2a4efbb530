"""From verdicts to findings: each gap of a call that is somebody's doing has a code, a place, its tokens, its price and
what to do about it.

Nothing here compares or prices requests: the judge did. A code stands for a kind of change, a setting, a cause, or a check
of one request (`hazards.toml`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from contextkit.errors import UnreadableRequest
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.misses import priced_gaps, row_of_call
from contextkit.ledger.verdict import Gap, Verdict
from contextkit.lint.finding import Detector, Finding, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.own import UNREADABLE
from contextkit.whatif.actions import fix_of

_LEAST_TOKENS = 100
"""Beside a bill, a smaller gap may be one of estimated sizes, unless it is a part of a miss."""
Agreement = Literal["confirmed", "contradicted", "silent"]


class Codes:
    """The codes of a catalogue, by what they stand for."""

    def __init__(self, hazards: Iterable[Hazard]) -> None:
        self.hazards = {hazard.code: hazard for hazard in hazards}
        self._codes = {name: hazard.code for hazard in self.hazards.values() for name in hazard.requests}

    def of_gap(self, gap: Gap, call: ModelCall) -> str:
        """Return the code of a gap, by its kind, else by its cause; empty for one that the catalogue does not have."""
        cause: str = gap.cause
        if cause == "unknown" and row_of_call(call).cache != "breakpoints":
            cause = "unknown_best_effort"
        return self._codes.get(gap.kind) or self._codes.get(cause, "")


@cache
def all_codes() -> Codes:
    """Return the codes of every hazard, loaded when the first finding is made."""
    from contextkit.lint.catalogue import hazards

    return Codes(hazards())


@dataclass(frozen=True, slots=True)
class Spot:
    """A call in its conversation: where its findings are."""

    session: str
    """The conversation."""
    turn: int
    """Number of the call in it, from 1."""
    request: str
    """Id of the call."""
    caller: str = ""
    """`file:line` of the code that sent it."""
    reader: str = ""
    """Who can change something about it, as `whatif.actions.reader_of` names it."""


def findings_of(
    verdict: Verdict, call: ModelCall, spot: Spot, codes: Codes, detector: Detector = "requests"
) -> list[Finding]:
    """Make one finding for each gap that is somebody's doing, the largest first, with what it lost."""
    reported = [gap for gap in verdict.gaps if _is_reported(verdict, gap) and codes.of_gap(gap, call)]
    is_estimated = verdict.read is None
    return [
        replace(
            _finding(gap, call, spot, codes, detector),
            cost_tokens=gap.tokens,
            cost_usd=usd,
            is_estimated=is_estimated,
        )
        for gap, usd in (priced_gaps(verdict, call) if reported else ())
        if gap in reported
    ]


def findings_of_gaps(
    gaps: Iterable[Gap], call: ModelCall, spot: Spot, codes: Codes, detector: Detector = "requests"
) -> Iterator[Finding]:
    """Yield a finding for each gap that has a code, without what it lost."""
    return (_finding(gap, call, spot, codes, detector) for gap in gaps if codes.of_gap(gap, call))


def _finding(gap: Gap, call: ModelCall, spot: Spot, codes: Codes, detector: Detector) -> Finding:
    path, _, offset = gap.place.partition(" byte ")
    level = _LEVEL_OF_CAUSE.get(gap.cause) or (level_of(path) if path else "parameters")
    at = int(offset.replace(",", "")) if offset else 0
    place = RequestPlace(
        spot.session, spot.turn, spot.request, level, path or "body", at, gap.was, gap.now, spot.caller
    )
    message = gap.evidence or gap.cause.replace("_", " ")
    advice = fix_of(gap.cause, spot.reader)
    return Finding(codes.of_gap(gap, call), message, place, detector, cause=gap.cause, advice=advice)


def _is_reported(verdict: Verdict, gap: Gap) -> bool:
    """Return whether a gap is worth a finding: every part of a miss; else what the program did, and a change also where it
    lost nothing yet: behind another one, or in a prompt that is too short to be cached.
    """
    if not gap.is_avoidable or (gap.is_unproven and not verdict.is_miss):
        return False
    is_shown = gap.whose == "program_bytes" or bool(gap.kind)
    is_whole = is_shown if verdict.read is None else verdict.is_miss
    least = 1 if is_whole else _LEAST_TOKENS
    is_short = any(one.cause == "below_minimum" for one in verdict.gaps)
    return gap.tokens >= least or (not gap.tokens and (is_short or verdict.lost_tokens >= least))


def unreadable_finding(call: ModelCall, error: UnreadableRequest, turn: int) -> Finding:
    """Make the finding of a body that cannot be read."""
    place = RequestPlace(call.session, turn, call.id, "parameters", error.path, 0, "", "")
    return Finding(UNREADABLE, f"request cannot be read: {error.what}", place, "requests")


_LEVEL_OF_CAUSE = {"tools_changed": "tools", "system_changed": "system", "messages_changed": "messages"}


def level_of(path: str) -> str:
    """Return the level a path stands on, by its first word.

    >>> level_of("messages[3].content[0].cache_control"), level_of("thinking.budget_tokens")
    ('messages', 'parameters')
    """
    return _LEVELS.get(path.replace("[", ".").partition(".")[0], "parameters")


_LEVELS = {
    **dict.fromkeys(("tools", "toolConfig"), "tools"),
    **dict.fromkeys(("system", "instructions", "systemInstruction", "system_instruction"), "system"),
    **dict.fromkeys(("messages", "input", "contents"), "messages"),
}


_COMPARABLE_DIAGNOSES = {
    "input_changed": "messages_changed",
    **dict.fromkeys(
        ("text_format_changed", "previous_message_not_found", "comparison_response_not_found", "cache_hit"), ""
    ),
    "unavailable": "",
}
"""Diagnosis of a provider → the one that it is compared as; an empty one says nothing."""


def agreement(finding: Finding, hazard: Hazard) -> Agreement:
    """Compare a finding with the provider's own diagnosis of the call: `confirmed`, `contradicted`, or `silent` if it said
    nothing that can be compared.
    """
    diagnosis = _COMPARABLE_DIAGNOSES.get(finding.verdict, finding.verdict)
    if not diagnosis or not hazard.confirmed_by:
        return "silent"
    return "confirmed" if {diagnosis, finding.verdict} & set(hazard.confirmed_by) else "contradicted"
