"""What two neighbouring calls show: the first place where the cached prefix breaks, and the hazard that a rule sees
there.

Takes calls cut into blocks and the catalogue, gives findings. Also compares two request bodies by hand, for assertions.
Knows nothing of clients.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, parse
from contextkit.errors import NotSerialisable, UnreadableRequest, UsageError
from contextkit.ledger.calls import Bodies, Exchange
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.requests.cost import Costs
from contextkit.lint.requests.cut import compare, cut
from contextkit.lint.requests.naming import UNREADABLE, HazardRule, Rules, evidence_of, finding_of, unnamed
from contextkit.lint.requests.rule import Change, Evidence, RecordedCall, Step

_KEYING = ("parameters",)
"""Levels whose rules on a step speak of what keys the prefix itself."""
_MOST_STEPS = 3
"""Findings on parameters told for one call."""


@cache
def catalogue() -> Rules:
    """The rules of every hazard there is; read when the first prefix breaks, not before."""
    from contextkit.lint.catalogue import hazards

    return Rules(hazards())


def step_of(before: RecordedCall, after: RecordedCall, turn: int) -> Step:
    """The two calls, compared."""
    return Step(before, after, turn, compare(before, after), (before,))


def broken(step: Step, rules: Rules, session: str = "", caller: str = "") -> list[Finding]:
    """What breaks the prefix: the first change in what was cached, then parameters that key it.

    Each with what the step cost.

    A change behind the last breakpoint is none, nor is one of which the provider notices nothing: all that could be
    read is read. One that no rule names carries the code `CK001`.
    """
    first = next((change for change in step.changes if change.is_first and change.is_cached), None)
    keyed = list(islice(evidence_of_step(step, rules, _KEYING), _MOST_STEPS))
    if first is None and not keyed:
        return []
    cost = Costs().of(step)
    if cost is not None and cost.is_same:
        first = None
    tokens, usd = (cost.tokens, cost.usd(cost.tokens)) if cost else (None, None)
    findings = [] if first is None else [_of_change(step, first, rules, session, tokens, usd)]
    findings += [
        finding_of(rule, evidence, step.after, session, step.turn, None, tokens, usd) for rule, evidence in keyed
    ]
    return [_as_guard_finding(finding, caller) for finding in findings]


def evidence_of_step(step: Step, rules: Rules, levels: Sequence[str]) -> Iterator[tuple[HazardRule, Evidence]]:
    """What the rules on a step say, of the hazards of some levels; a rule that cannot read the call says nothing here."""
    for rule in rules.on("step"):
        if rule.hazard.level in levels:
            yield from ((rule, evidence) for evidence in evidence_of(rule, step) if evidence.path != UNREADABLE)


def refused(sent: RecordedCall, turn: int, rules: Rules, session: str = "", caller: str = "") -> list[Finding]:
    """What is wrong with the markers of one call, whatever came before it: a provider refuses it, or ignores a marker."""
    on_calls = (rule for rule in rules.on("call") if rule.hazard.level == "breakpoints")
    said = ((rule, said) for rule in on_calls for said in evidence_of(rule, sent) if said.path != UNREADABLE)
    return [
        _as_guard_finding(finding_of(rule, one, sent, session, turn, None, None, None), caller) for rule, one in said
    ]


def _of_change(
    step: Step, change: Change, rules: Rules, session: str, tokens: int | None, usd: float | None
) -> Finding:
    for rule in rules.on("change"):
        for evidence in evidence_of(rule, step, change):
            if evidence.path != UNREADABLE:
                return finding_of(rule, evidence, step.after, session, step.turn, change, tokens, usd)
    return unnamed(step, change, session, tokens, usd)


def _as_guard_finding(finding: Finding, caller: str) -> Finding:
    place = finding.place
    return replace(
        finding, detector="guard", place=replace(place, caller=caller) if isinstance(place, RequestPlace) else place
    )


def recorded_call(
    body: bytes,
    wire: str = "",
    *,
    at: float = 0.0,
    began_at: float | None = None,
    usage: Usage | None = None,
    before: RecordedCall | None = None,
) -> RecordedCall:
    """A body as a call.

    Raises `UnreadableRequest` for what is none. `before` is an earlier call whose blocks may be taken over.
    """
    provider, model = wire.partition("_")[0], _model_of(body) if before is None else before.exchange.model
    exchange = Exchange("", "", "main", at, began_at, None, provider, model, Bodies(body), usage, None, None)
    sent = cut(exchange, before, index=0 if before is None else before.index + 1)
    if sent is None:
        raise UnreadableRequest("body", "not a request to a model: it has neither messages, nor input, nor contents")
    return sent


def _model_of(body: bytes) -> str:
    """The model a body names: providers are told apart by it where the body alone does not say."""
    try:
        fields = parse(body)
    except NotSerialisable:
        return ""
    return str(fields.get("model") or "") if isinstance(fields, dict) else ""


def breaks(before: Any, after: Any) -> str:
    """Why `after` does not begin as `before` did, over several lines; empty where it does.

    Both are bytes, a mapping, a contextkit `Request` or `PromptLayout`. Raises `UsageError` for anything else,
    `UnreadableRequest` for a body of no endpoint; either says which of the two it is.
    """
    one, other = _read("before", before), _read("after", after)
    if one.wire != other.wire:
        return f"  the requests are of two endpoints: {one.wire}, then {other.wire}"
    return listed(broken(step_of(_all_cached(one), replace(other, index=1), 2), catalogue()))


def _read(side: str, value: Any) -> RecordedCall:
    """One of two bodies as a call; what is wrong with it names its side."""
    try:
        body = _bytes_of(value)
        if not body.strip():
            raise UnreadableRequest("body", "empty")
        return recorded_call(body)
    except UnreadableRequest as error:
        raise UnreadableRequest(side if error.path == "body" else f"{side}.{error.path}", error.what) from None
    except UsageError as error:
        raise UsageError(f"{side}: {error}") from None


def _all_cached(sent: RecordedCall) -> RecordedCall:
    """A call without any marker is taken as if its end were marked: nothing says yet where the markers will stand."""
    if any(block.marker is not None for block in sent.blocks) or not sent.blocks:
        return sent
    return replace(sent, blocks=[*sent.blocks[:-1], replace(sent.blocks[-1], marker={"type": "ephemeral"})])


def listed(findings: Iterable[Finding]) -> str:
    """Findings for a failing test: what repeats at one place once, with how often, and where to read more.

    Empty where there are none.
    """
    together: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        together.setdefault((finding.code, _INDEX.sub("[]", _path_of(finding))), []).append(finding)
    texts = [
        "\n".join([format_finding(same[0]), *([f"  times   {len(same)}"] if len(same) > 1 else [])])
        for same in together.values()
    ]
    if not texts:
        return ""
    code, *more = dict.fromkeys(code for code, _ in together)
    others = f" (or {', '.join(more)})" if more else ""
    return "\n".join([*texts, f"why, and what to do: contextkit lint --explain {code}{others}"])


_INDEX = re.compile(r"\[\d+\]")
"""A place moves on with the conversation: `messages[4]` in one turn is `messages[6]` in the next."""


def _path_of(finding: Finding) -> str:
    return finding.place.path if isinstance(finding.place, RequestPlace) else str(finding.place)


def format_finding(finding: Finding) -> str:
    """A finding for a failing test: level, path, byte offset, and a window of both sides, one under the other."""
    place = finding.place
    if not isinstance(place, RequestPlace):
        return f"{finding.code} {finding.message} at {place}"
    lines = [
        f"{finding.code}{_name_of(finding.code)}: {finding.message}",
        f"  level   {place.level}",
        f"  path    {place.path}",
        f"  offset  byte {place.offset}",
        f"  before  {place.was!r}",
        f"  after   {place.now!r}",
        *([f"  sent    {place.caller}"] if place.caller else []),
    ]
    return "\n".join(lines)


def _name_of(code: str) -> str:
    hazard = catalogue().hazards.get(code)
    return f" {hazard.name}" if hazard else ""


def _bytes_of(value: Any) -> bytes:
    """A request as bytes: what it is already, its body, or what an SDK would make of it."""
    body = getattr(value, "body", None)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(body, bytes):
        return body
    if callable(body):  # a layout: what is no segment is no part of it
        return bytes(body(b"{}"))
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), default=_dumped).encode(
            "utf-8", "surrogatepass"
        )
    raise UsageError(f"a request is a dict, bytes, a Request or a PromptLayout, not {type(value).__name__}")


def _dumped(value: Any) -> Json:
    """A model of the SDK inside a body, as the SDK writes it; anything that can be listed as a list."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_unset=True, by_alias=True)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise UsageError(f"{type(value).__name__} in a request body has no JSON form")
