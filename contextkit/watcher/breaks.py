"""Broken prefixes of two neighbouring calls: the first changed cached block, and the hazard whose rule matches there.

Also compares two request bodies given by hand, for assertions in tests.
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
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.parsed_call import ParsedCall, compare, parse_call
from contextkit.ledger.verdict import Verdict
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.requests.judged import CAUSES_OF_LEVELS, Loss, has_lost_nothing, judge_pair
from contextkit.lint.requests.naming import UNREADABLE, HazardRule, Rules, evidence_of, finding_of, unnamed
from contextkit.lint.requests.rule import Change, Evidence, Step
from contextkit.providers.client_names import NO_NAMES, ClientNames

_KEYING = ("parameters",)
"""Levels whose rules on a step concern the cache key of the whole prefix."""
_MOST_STEPS = 3
"""Most findings on parameters reported for one call."""


@cache
def catalogue() -> Rules:
    """Load the rules of every hazard, when the first prefix breaks."""
    from contextkit.lint.catalogue import hazards

    return Rules(hazards())


def step_of(before: ParsedCall, after: ParsedCall, turn: int) -> Step:
    """Compare two calls."""
    return Step(before, after, turn, compare(before, after), (before,))


def broken(
    step: Step,
    rules: Rules,
    session: str = "",
    caller: str = "",
    verdict: Verdict | None = None,
    *,
    is_marked_as_sent: bool = True,
) -> list[Finding]:
    """Find what breaks the prefix: the first change in a cached block, then parameters in the cache key, each with its
    cost.

    `verdict` is what the judge expects of the later call; None where it knows nothing but these two.
    `is_marked_as_sent` is False where the blocks of the call before have breakpoints that its body, which the judge
    reads, does not have.

    A change behind the last breakpoint does not count, nor one after which everything is still read. A change that no
    rule matches has the code `CK001`.
    """
    is_miss = verdict is not None and verdict.is_miss
    first = next((change for change in step.changes if change.is_first and (change.is_cached or is_miss)), None)
    keyed = list(islice(evidence_of_step(step, rules, _KEYING), _MOST_STEPS))
    if first is None and not keyed:
        return []
    verdict = verdict or judge_pair(step)
    if verdict is not None and is_marked_as_sent and has_lost_nothing(verdict):
        first = None
    loss = None if verdict is None else Loss(verdict, step.after)
    findings: list[Finding] = []
    if first is not None:
        tokens = None if loss is None else loss.take_changed()
        usd = None if loss is None or tokens is None else loss.usd(tokens)
        findings.append(_of_change(step, first, rules, session, tokens, usd))
    findings += [
        finding_of(rule, evidence, step.after, session, step.turn, None, *_borne(loss)) for rule, evidence in keyed
    ]
    return [_as_guard_finding(finding, caller) for finding in findings]


def _borne(loss: Loss | None) -> tuple[int | None, float | None]:
    """Tokens and dollars that a finding on parameters bears; None where the reference cache shows no loss, since it does
    not model every parameter.
    """
    tokens = loss.take([cause for level in _KEYING for cause in CAUSES_OF_LEVELS[level]]) if loss else 0
    return (tokens, loss.usd(tokens)) if loss and tokens else (None, None)


def evidence_of_step(step: Step, rules: Rules, levels: Sequence[str]) -> Iterator[tuple[HazardRule, Evidence]]:
    """Yield the evidence of step rules of some levels; a rule that cannot read the call yields none."""
    for rule in rules.on("step"):
        if rule.hazard.level in levels:
            yield from ((rule, evidence) for evidence in evidence_of(rule, step) if evidence.path != UNREADABLE)


def refused(sent: ParsedCall, turn: int, rules: Rules, session: str = "", caller: str = "") -> list[Finding]:
    """Find breakpoints of one call that a provider refuses or ignores, whatever came before it."""
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


def parsed_body(
    body: bytes,
    wire: str = "",
    *,
    at: float = 0.0,
    began_at: float | None = None,
    usage: Usage | None = None,
    before: ParsedCall | None = None,
    in_headers: ClientNames = NO_NAMES,
) -> ParsedCall:
    """Parse a body as a call; `before` is an earlier call whose blocks may be reused.

    Raises `UnreadableRequest` for a body that is not a model call.
    """
    provider, model = wire.partition("_")[0], _model_of(body) if before is None else before.call.model
    call = ModelCall(
        id="", at=at, first_byte_at=began_at, provider=provider, model=model, prompt=Bodies(body), usage=usage
    )
    sent = parse_call(call, before, index=0 if before is None else before.index + 1, in_headers=in_headers)
    if sent is None:
        raise UnreadableRequest("body", "not a request to a model: it has neither messages, nor input, nor contents")
    return sent


def _model_of(body: bytes) -> str:
    """Model that a body names, which identifies the provider where the body alone does not."""
    try:
        fields = parse(body)
    except NotSerialisable:
        return ""
    return str(fields.get("model") or "") if isinstance(fields, dict) else ""


def breaks(before: Any, after: Any) -> str:
    """Describe how `after` breaks the prefix of `before`, in several lines; empty where it does not.

    Both are bytes, a mapping, a contextkit `Request` or `PromptLayout`. Raises `UsageError` for anything else and
    `UnreadableRequest` for an unknown body; either names the argument.
    """
    one, other = _read("before", before), _read("after", after)
    if one.endpoint != other.endpoint:
        return f"  the requests are of two endpoints: {one.endpoint}, then {other.endpoint}"
    marked = _all_cached(one)
    step = step_of(marked, replace(other, index=1), 2)
    return listed(broken(step, catalogue(), is_marked_as_sent=marked is one))


def _read(side: str, value: Any) -> ParsedCall:
    """Parse one of two bodies; an error names the argument."""
    try:
        body = _bytes_of(value)
        if not body.strip():
            raise UnreadableRequest("body", "empty")
        return parsed_body(body)
    except UnreadableRequest as error:
        raise UnreadableRequest(side if error.path == "body" else f"{side}.{error.path}", error.what) from None
    except UsageError as error:
        raise UsageError(f"{side}: {error}") from None


def _all_cached(sent: ParsedCall) -> ParsedCall:
    """Treat a call without breakpoints as if it had one at its end."""
    if any(block.marker is not None for block in sent.blocks) or not sent.blocks:
        return sent
    return replace(sent, blocks=[*sent.blocks[:-1], sent.blocks[-1].marked({"type": "ephemeral"})])


def listed(findings: Iterable[Finding]) -> str:
    """Format findings for a failing test: repeated ones once with their count, and where to read more.

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
"""Index in a path; it moves with the conversation: `messages[4]` in one turn is `messages[6]` in the next."""


def _path_of(finding: Finding) -> str:
    return finding.place.path if isinstance(finding.place, RequestPlace) else str(finding.place)


def format_finding(finding: Finding) -> str:
    """Format a finding for a failing test: level, path, byte offset, and a window of both sides."""
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
    """Return a request as bytes: itself, its body, or as an SDK would serialize it."""
    body = getattr(value, "body", None)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(body, bytes):
        return body
    if callable(body):  # a layout: it holds blocks only
        return bytes(body(b"{}"))
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), default=_dumped).encode(
            "utf-8", "surrogatepass"
        )
    raise UsageError(f"a request is a dict, bytes, a Request or a PromptLayout, not {type(value).__name__}")


def _dumped(value: Any) -> Json:
    """Serialize a model of the SDK as the SDK does; any other iterable as a list."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_unset=True, by_alias=True)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise UsageError(f"{type(value).__name__} in a request body has no JSON form")
