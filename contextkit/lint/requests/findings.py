"""From verdicts to findings: each gap of a call that is somebody's doing has a code, a place, its tokens and its price.

Nothing here compares or prices requests: the judge did. A code stands for a kind of change, a setting, or a cause
(`hazards.toml`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

from contextkit.canonical import Json, canonical
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.changes.kinds import gap_of, named_changes
from contextkit.ledger.changes.settings import changed_settings, setting_kind
from contextkit.ledger.misses import complete_usage, list_cost_usd, row_of_call
from contextkit.ledger.parsed_call import ParsedCall
from contextkit.ledger.prompts import read_body
from contextkit.ledger.verdict import Gap, Verdict, gap_costs_usd
from contextkit.lint.finding import Detector, Finding, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.own import UNREADABLE
from contextkit.lint.requests.checks import CHECKS, CheckFailure
from contextkit.redact import redact, redact_text

_LEAST_TOKENS = 100
"""Beside a bill, a smaller gap may be one of estimated sizes, unless it is a part of a miss."""
_COMPARABLE_DIAGNOSES = {
    "input_changed": "messages_changed",
    "text_format_changed": "unavailable",
    "previous_message_not_found": "unavailable",
    "comparison_response_not_found": "unavailable",
    "cache_hit": "unavailable",
}
"""Diagnosis of a provider → the one that it is compared as; `unavailable` says nothing."""
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

    def of_check(self, name: str) -> str:
        """Return the code of a check; empty for one that the catalogue does not have."""
        return self._codes.get(name, "")

    def checks(self) -> list[str]:
        """Return the names of the checks that the catalogue has."""
        return [name for name in CHECKS if name in self._codes]


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


def findings_of(
    verdict: Verdict,
    call: ModelCall,
    spot: Spot,
    codes: Codes,
    detector: Detector = "requests",
    diagnosis: str = "",
) -> list[Finding]:
    """Make one finding for each gap that is somebody's doing, the largest first; `diagnosis` is the provider's own."""
    usage = complete_usage(call) if call.usage else verdict.quote
    reported = [gap for gap in verdict.gaps if _is_reported(verdict, gap) and codes.of_gap(gap, call)]
    costs = gap_costs_usd(reported, usage, partial(list_cost_usd, call))
    return [
        replace(
            finding_of_gap(gap, call, spot, codes, detector), cost_tokens=gap.tokens, cost_usd=usd, verdict=diagnosis
        )
        for gap, usd in zip(reported, costs, strict=True)
    ]


def finding_of_gap(gap: Gap, call: ModelCall, spot: Spot, codes: Codes, detector: Detector) -> Finding:
    """Make the finding of a gap, without what it lost."""
    message = gap.evidence or gap.cause.replace("_", " ")
    return Finding(codes.of_gap(gap, call), message, _place_of(gap, spot), detector)


def findings_between(one: ParsedCall, other: ParsedCall, spot: Spot, codes: Codes) -> Iterator[Finding]:
    """Yield what a request changes against another one, of which nothing else is known: the first change of a cached block,
    then the settings that key the cache.
    """
    first = next((change for change in named_changes(one, other) if change.change.is_cached), None)
    gaps = [] if first is None else [gap_of(first)]
    for path, was, now in changed_settings(_settings(one), _settings(other)):
        old, new = ("" if side is None else redact(canonical(side)).decode() for side in (was, now))
        kind = setting_kind(path)
        gaps.append(Gap("program_use", "params_changed", 0, path, f"{path} changed", kind=kind, was=old, now=new))
    return (finding_of_gap(gap, other.call, spot, codes, "guard") for gap in gaps if codes.of_gap(gap, other.call))


def _settings(sent: ParsedCall) -> Mapping[str, Json]:
    read = read_body(sent.raw, sent.call.provider, sent.call.model)
    return read.settings if read else {}


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


def finding_of_check(
    name: str, failure: CheckFailure, spot: Spot, codes: Codes, detector: Detector = "requests", diagnosis: str = ""
) -> Finding:
    """Make the finding of a check of one request."""
    was, now = redact_text(failure.was), redact_text(failure.now)
    place = RequestPlace(
        spot.session, spot.turn, spot.request, level_of(failure.path), failure.path, 0, was, now, spot.caller
    )
    return Finding(codes.of_check(name), failure.message, place, detector, verdict=diagnosis)


def unreadable_finding(call: ModelCall, path: str, what: str, turn: int) -> Finding:
    """Make the finding of a body that cannot be read."""
    place = RequestPlace(call.session, turn, call.id, "parameters", path, 0, "", "")
    return Finding(UNREADABLE, f"request cannot be read: {what}", place, "requests")


def _place_of(gap: Gap, spot: Spot) -> RequestPlace:
    path, _, offset = gap.place.partition(" byte ")
    at = int(offset.replace(",", "")) if offset else 0
    level = _LEVEL_OF_CAUSE.get(gap.cause) or (level_of(path) if gap.place else "parameters")
    return RequestPlace(spot.session, spot.turn, spot.request, level, path or "body", at, gap.was, gap.now, spot.caller)


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


def agreement(finding: Finding, hazard: Hazard) -> Agreement:
    """Compare a finding with the provider's own diagnosis of the call: `confirmed`, `contradicted`, or `silent` if it said
    nothing that can be compared.
    """
    verdict = _COMPARABLE_DIAGNOSES.get(finding.verdict, finding.verdict)
    if not verdict or verdict == "unavailable" or not hazard.confirmed_by:
        return "silent"
    return "confirmed" if {verdict, finding.verdict} & set(hazard.confirmed_by) else "contradicted"
