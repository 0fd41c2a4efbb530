"""Causes of cache misses: what is known of a call and of the one before it in its lane, and the evidence in that.

`CAUSES` is the table: each check takes a `CallPair` and returns its `Evidence`, or None. None of them looks at what the
call read, so the same table predicts which calls miss (`contextkit validate`). Only then what was read is asked: whether
a cause explains most of what was lost, and whether another server answered.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Literal, NamedTuple, cast

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.facts.observed import EventRates, event_rates, measured_lifetime, miss_share
from contextkit.ledger.calls import ModelCall, Outline
from contextkit.models import Model
from contextkit.prompt.prompt import LEVELS

DEFAULT_TTL_SECONDS, LONG_TTL_SECONDS = 300, 3600
"""Lifetimes assumed where neither the prompt nor the model table states one; the second where 1 h writes were billed
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching)."""
SHARE = 0.05
"""A shortfall up to this share of what was expected is noise (pydantic-ai-harness 0.62.0, `WarnOnCacheBusts`)."""
TOKENS = 2_000
"""A shortfall up to this many tokens is noise (same source)."""

Cause = Literal[
    "below_minimum",
    "first_write",
    "model_changed",
    "compaction",
    "params_changed",
    "tools_changed",
    "system_changed",
    "messages_changed",
    "ttl_expired",
    "cold_fan_out",
    "out_of_reach",
    "aborted",
    "reasoning_stripped",
    "session_resumed",
    "other_server",
    "unknown",
]

Basis = Literal["recorded", "assumed", "documented", "measured", "associated", ""]
"""What supports a cause. recorded: the record shows it; assumed: something, such as a lifetime, had to be assumed;
documented: the record shows something that, as the provider documents, has this effect; measured: something whose
effect was measured on other recordings; associated: something that came before the miss, which proves nothing (the
cause is `unknown`); empty: nothing."""


def is_shortfall(expected_tokens: int, read_tokens: int) -> bool:
    """True where the difference exceeds the noise limits.

    >>> is_shortfall(40_000, 37_000), is_shortfall(100_000, 96_000), is_shortfall(1_500, 0)
    (True, False, False)
    """
    return expected_tokens - read_tokens > max(SHARE * expected_tokens, TOKENS)


class Evidence(NamedTuple):
    """Evidence of a cause."""

    text: str
    """What the record shows."""
    basis: Basis = "recorded"
    """What supports it."""
    keeps: int | None = None
    """Tokens at the front of the prompt that can still be read; None where only what other conversations keep in the
    cache can be, such as tools and system prompt."""
    share: float = 1.0
    """Of calls with such evidence, the share that missed, where that was measured."""


def recorded(text: str, *, is_recorded: bool) -> Evidence:
    """Evidence that was recorded, or rests on something assumed."""
    return Evidence(text, "recorded" if is_recorded else "assumed")


MOST_EARLIER = 4_096
"""Calls of a lane of which it is remembered what they left in the cache."""
NO_REMARKS: Mapping[str, str] = MappingProxyType({})
"""No remarks since the call before."""


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """A prefix that a call may have left in the cache."""

    segment: int
    """Index of its last block."""
    digest: bytes
    """Running digest at its end."""
    position: int
    """Lookback position of its end."""
    n_tokens: int
    """Size."""
    ttl_seconds: int | None
    """Lifetime; None where the prompt has no breakpoints and its end is used instead."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts of a call needed to judge the next one, copied because prompts are borrowed."""

    call: ModelCall
    """The ledger row."""
    usage: Usage
    """Its bill, with every part of the prompt known."""
    prompt_tokens: int
    """Size of the prompt, as billed."""
    outline: Outline | None
    """The prompt as a difference; None where it was not recorded."""
    namespaces: tuple[bytes, ...]
    """Cache namespaces of the prompt; empty where it was not recorded."""
    n: int
    """Number of blocks."""
    cached: tuple[CachedPrefix, ...]
    """Prefixes it may have left readable, shortest first."""

    @property
    def began_at(self) -> float | None:
        """Time at which its writes became readable: its first byte, or its end where that is unknown."""
        return self.call.ended_at if self.call.first_byte_at is None else self.call.first_byte_at


@dataclass(slots=True)
class LaneState:
    """State of one lane between two of its calls."""

    before: CallFacts | None = None
    """The last call with a bill."""
    high_tokens: int = 0
    """Most tokens in the cache so far; restarts after a miss or a shorter prompt."""
    n_unchanged: int = 0
    """Leading blocks unchanged since `before`."""
    unbilled: int = 0
    """Calls without a bill since `before`, which may or may not have kept the cache warm."""
    is_long: bool = False
    """True where 1 h writes were billed."""
    is_ttl_billed: bool = False
    """True where a bill told the lifetime of what was written."""
    entries: list[int] = field(default_factory=list)
    """Log sequence of each block."""
    remarks: Mapping[str, str] = field(default_factory=lambda: NO_REMARKS)
    """Remarks since `before`, their text by their kind, of an event by its name."""
    head_tokens: int = 0
    """Least that the first call, or a later one that missed, read: about the tools and the system prompt, which other
    conversations keep in the cache; 0 where nothing was.
    """
    first_tokens: int = 0
    """Prompt of the first call, or of the first one behind a compaction."""
    turn_tokens: int = 0
    """Prompt of the first call of the current turn; 0 where turns are not recorded."""
    earlier: array[int] = field(default_factory=lambda: array("q"))
    """Tokens that each call left in the cache, the last few thousand calls."""

    def note_cached(self, tokens: int, *, is_cut: bool) -> None:
        """A call has left so many tokens in the cache; `is_cut` where what calls before it left is of no use to it."""
        if is_cut or len(self.earlier) >= MOST_EARLIER:
            del self.earlier[: None if is_cut else MOST_EARLIER // 2]
        self.earlier.append(tokens)

    def calls_since(self, tokens: int) -> int | None:
        """How many calls ago exactly so many tokens were left in the cache; None for never."""
        ago = next((ago for ago, left in enumerate(reversed(self.earlier), 1) if left == tokens), None)
        return ago if tokens else None


@dataclass(frozen=True, slots=True)
class CallPair:
    """A call and the call before it in its lane."""

    lane: LaneState
    """Their lane."""
    before: CallFacts
    """The last call with a bill."""
    now: CallFacts
    """The call under examination."""
    prompt: Prompt | None
    """Prompt of `now`."""
    row: Model | None
    """Model of `now`."""
    place: str = ""
    """First difference of the two bodies where they were recorded: `messages[4] byte 812`."""
    is_whole: bool = False
    """True where whole request bodies were compared."""


def call_facts(call: ModelCall, usage: Usage, prompt: Prompt | None) -> CallFacts:
    """Copy the facts of one call out of its borrowed prompt."""
    outline = call.prompt if isinstance(call.prompt, Outline) else None
    size = usage.prompt or 0
    if prompt is None or not prompt.n:
        return CallFacts(call, usage, size, outline, (), 0, ())
    return CallFacts(call, usage, size, outline, prompt.namespaces, prompt.n, _cached_prefixes(prompt))


def is_stored_whole(call: CallFacts, row: Model) -> bool:
    """Whether a call leaves all of its prompt in the cache, as far as is known: an implicit cache, or one whose writes
    nobody reported.
    """
    return row.cache == "implicit" or call.usage.quality("writes") == "partial"


def _cached_prefixes(prompt: Prompt) -> tuple[CachedPrefix, ...]:
    ends: list[tuple[int, int | None]] = [
        (mark.segment, mark.ttl_seconds) for mark in prompt.breakpoints if mark.is_written
    ]
    ends = ends or [(prompt.n - 1, None)]
    return tuple(CachedPrefix(i, prompt.digests[i], prompt.positions[i], prompt.ends_tokens[i], ttl) for i, ttl in ends)


def _model_changed(pair: CallPair) -> Evidence | None:
    before, now = pair.before.call, pair.now.call
    is_same = (before.provider, before.model) == (now.provider, now.model)
    return None if is_same else Evidence(f"{before.provider}/{before.model} → {now.provider}/{now.model}")


def _compaction(pair: CallPair) -> Evidence | None:
    before, now = pair.before.outline, pair.now.outline
    remark = pair.lane.remarks.get("compaction")
    sizes = f"prompt {pair.before.prompt_tokens:,} → {pair.now.prompt_tokens:,} tokens"
    if before is None or now is None or before.epoch == now.epoch:
        return Evidence(f"{remark}, {sizes}") if remark else None
    return Evidence(f"epoch {before.epoch} → {now.epoch}, {sizes}")


def _params_changed(pair: CallPair) -> Evidence | None:
    levels = zip(LEVELS, pair.before.namespaces, pair.now.namespaces, strict=False)
    level = next((level for level, before, now in levels if before != now), None)
    if level:
        return Evidence(f"{level}: a request setting outside the prompt's text")
    remark = pair.lane.remarks.get("setting")
    return Evidence(remark) if remark else None


def _text_changed(level: int) -> Callable[[CallPair], Evidence | None]:
    def check(pair: CallPair) -> Evidence | None:
        segment = first_changed_block(pair)
        if segment is None or _level(pair, segment) != level:
            return None
        keeps = _retained_tokens(pair, segment)
        if pair.place:
            return Evidence(pair.place, keeps=keeps)
        entry = pair.lane.entries[segment] if segment < len(pair.lane.entries) else -1
        place = f"{LEVELS[level]} block {segment}"
        return Evidence(f"{place}, entry {entry}" if entry >= 0 else place, keeps=keeps)

    return check


def first_changed_block(pair: CallPair) -> int | None:
    """Index of the first changed block; None where everything that was cached is unchanged.

    A change behind the last breakpoint does not count, because it was never in the cache.
    """
    prompt = pair.prompt
    if prompt is None or not pair.before.cached:
        return None
    last = pair.before.cached[-1]
    if prompt.n > last.segment and prompt.digests[last.segment] == last.digest:
        return None
    return pair.lane.n_unchanged


def _retained_tokens(pair: CallPair, segment: int) -> int | None:
    """Tokens before a changed block that can be read: up to it, or up to the last breakpoint before it."""
    if pair.before.cached[-1].ttl_seconds is not None:
        return max((prefix.n_tokens for prefix in pair.before.cached if prefix.segment < segment), default=None)
    return pair.prompt.ends_tokens[segment - 1] if pair.prompt and 0 < segment <= pair.prompt.n else None


def _level(pair: CallPair, segment: int) -> int:
    """Level of a block in either prompt, the earlier where they differ: an added tool moves every later block."""
    ends = [(call.outline.level_ends, call.n) for call in (pair.before, pair.now) if call.outline]
    return min((segment >= tools) + (segment >= system) for (tools, system), n in ends if segment < n)


def ttl_seconds(pair: CallPair) -> tuple[int, bool]:
    """Lifetime of the last cached prefix, and whether it was recorded."""
    recorded = pair.before.cached[-1].ttl_seconds if pair.before.cached else None
    if recorded is not None:
        return recorded, True
    if pair.row:
        ttl = pair.row.ttls_seconds[-1] if pair.lane.is_long else pair.row.default_ttl_seconds
        return ttl, pair.lane.is_ttl_billed
    return (LONG_TTL_SECONDS if pair.lane.is_long else DEFAULT_TTL_SECONDS), pair.lane.is_ttl_billed


def gap_seconds(pair: CallPair) -> tuple[float, float]:
    """Seconds from the start of the call before to the start of this one, and from its end, where that is known."""
    before, at = pair.before.call, pair.now.call.at
    return at - before.at, at - max(before.at, before.ended_at or before.at)


def _ttl_expired(pair: CallPair) -> Evidence | None:
    """A lifetime counts from the start of a call, as documented; as billed, rather from its end: where only the time from
    the start is longer, a miss is explained, and not expected.
    """
    (gap, from_end), (ttl, is_recorded) = gap_seconds(pair), ttl_seconds(pair)
    if gap <= ttl:
        measured = measured_lifetime(pair.row.name) if pair.row else None
        if measured is None or gap <= measured.seconds:
            return None
        figures = f"{measured.missed} of {measured.calls} calls after more than {measured.seconds} s missed"
        return Evidence(f"gap {int(gap)} s; {figures}", "measured")
    seconds = f"{gap:.1f}" if int(gap) == ttl else f"{int(gap)}"
    evidence = recorded(f"gap {seconds} s > {ttl} s", is_recorded=is_recorded and not pair.lane.unbilled)
    return evidence if from_end > ttl else evidence._replace(share=miss_share("gap from start only"))


def starts_too_early(facts: CallFacts, now: CallFacts) -> Evidence | None:
    """Evidence that `now` started before `call` began to answer, so that it could not read what `call` wrote."""
    if facts.began_at is None or now.call.at >= facts.began_at:
        return None
    early = facts.began_at - now.call.at
    text = f"started {early:.1f} s before the response of {facts.call.id!r} began"
    return recorded(text, is_recorded=facts.call.first_byte_at is not None)


def _cold_fan_out(pair: CallPair) -> Evidence | None:
    evidence = starts_too_early(pair.before, pair.now)
    is_assumed = evidence is not None and evidence.basis == "assumed"
    return evidence._replace(share=miss_share("start before the end")) if evidence and is_assumed else evidence


def _out_of_reach(pair: CallPair) -> Evidence | None:
    if pair.prompt is None or not pair.before.cached or pair.before.cached[-1].ttl_seconds is None:
        return None
    last, positions = pair.before.cached[-1], pair.prompt.positions
    behind = [
        (positions[mark.segment] - last.position, mark.lookback)
        for mark in pair.prompt.breakpoints
        if mark.segment >= last.segment
    ]
    if not behind:
        return Evidence(f"no breakpoint at or behind block {last.segment}, up to which the call before was cached")
    if any(distance < lookback for distance, lookback in behind):
        return None
    distance, lookback = min(behind)
    return Evidence(f"{distance} positions behind the last breakpoint, a lookup visits {lookback}")


def _aborted(pair: CallPair) -> Evidence | None:
    facts = pair.before
    has_begun = facts.call.first_byte_at is not None or bool(facts.usage.output)
    if facts.call.error is None or has_begun:
        return None
    return Evidence(f"{facts.call.id!r} ended before its response began", "assumed")


def _is_compared(pair: CallPair) -> bool:
    """Return whether both prompts were recorded, so that what changed in them is known."""
    return pair.prompt is not None and bool(pair.before.cached)


def _reasoning_stripped(pair: CallPair) -> Evidence | None:
    """At a user turn the reasoning of the turn before leaves the prompt, so only what stands before it can be read."""
    said = pair.lane.remarks.get("turn", "")
    n_reasoning = int(said) if said.isascii() and said.isdecimal() else 0
    if not n_reasoning or pair.row is None or not pair.row.strips_reasoning or _is_compared(pair):
        return None
    kept = pair.lane.turn_tokens
    text = f"{n_reasoning:,} tokens of reasoning left the prompt at a user turn; {kept:,} tokens stand before them"
    return Evidence(text, "documented", kept)


def diagnosis(pair: CallPair) -> tuple[Cause, Evidence] | None:
    """The provider's own diagnosis, where it names a cause."""
    verdict = pair.lane.remarks.get("verdict", "")
    cause = _DIAGNOSES.get(verdict)
    return (cause, Evidence(f"the provider's diagnosis: {verdict}")) if cause else None


_DIAGNOSES: Mapping[str, Cause] = MappingProxyType(
    {
        "model_changed": "model_changed",
        "tools_changed": "tools_changed",
        "system_changed": "system_changed",
        "messages_changed": "messages_changed",
        "input_changed": "messages_changed",
        "prompt_cache_key_changed": "params_changed",
        "service_tier_changed": "params_changed",
    }
)
"""Anthropic's `cache_miss_reason` and OpenAI's `prompt_cache_diagnostics` that name a cause."""


def event_before(pair: CallPair) -> tuple[EventRates, Evidence] | None:
    """Of the events between two calls the one that explains most, with its evidence; None where there was none."""
    found = [(rates, text) for name, text in pair.lane.remarks.items() if (rates := event_rates(name))]
    if not found:
        return None
    rates, text = max(found, key=lambda one: (one[0].explains, one[0].attributable, one[0].rate))
    basis: Basis = "documented" if rates.documented else "measured" if rates.explains else "associated"
    return rates, Evidence(f"{rates.name} {text}".rstrip() + f"; {rates.figures}", basis, None, rates.rate)


def _shortened(pair: CallPair) -> Evidence | None:
    """A prompt that is shorter than the one it goes on from does not begin with it; it may begin with an older one."""
    before, now = pair.before.prompt_tokens, pair.now.prompt_tokens
    if _is_compared(pair) or now >= before or _reasoning_stripped(pair):
        return None
    text = f"the prompt shrank from {before:,} to {now:,} tokens: something in it was cut or rewritten"
    return Evidence(text, share=miss_share("shorter prompt"))


def _other_server(pair: CallPair) -> Evidence | None:
    """A cache kept by each server: where nothing was cut, and the call reads exactly what an older call had left, or no
    more than a new conversation could, the server is one that saw that call and none since.
    """
    read = pair.now.usage.read or 0
    if pair.row is None or not is_stored_whole(pair.now, pair.row) or _shortened(pair):
        return None
    older = _read_of_older_call(pair)
    if older:
        return Evidence(older, "documented")
    is_head = 0 < read <= pair.lane.first_tokens
    return Evidence(f"read {read:,} tokens, no more than the first call sent", "documented") if is_head else None


def _read_of_older_call(pair: CallPair) -> str:
    """Which older call a read repeats; empty where it repeats none."""
    read = pair.now.usage.read or 0
    ago = pair.lane.calls_since(read)
    return "" if ago is None else f"read {read:,} tokens, exactly what the call {ago} calls before had left"


CAUSES: tuple[tuple[Cause, Callable[[CallPair], Evidence | None]], ...] = (
    ("model_changed", _model_changed),
    ("compaction", _compaction),
    ("params_changed", _params_changed),
    ("tools_changed", _text_changed(0)),
    ("system_changed", _text_changed(1)),
    ("messages_changed", _text_changed(2)),
    ("ttl_expired", _ttl_expired),
    ("cold_fan_out", _cold_fan_out),
    ("out_of_reach", _out_of_reach),
    ("aborted", _aborted),
    ("reasoning_stripped", _reasoning_stripped),
)
"""Causes in order of precedence; the first with evidence applies. Behind them come events, whose cause is that of their
row, and a prompt that shrank."""


def causes_before_bill(pair: CallPair) -> Iterator[tuple[Cause, Evidence]]:
    """Every reason to expect that a call misses which is known before its bill, in order of precedence."""
    yield from _recorded_causes(pair)
    yield from _causes_beside(pair)


def _recorded_causes(pair: CallPair) -> Iterator[tuple[Cause, Evidence]]:
    for cause, check in CAUSES:
        evidence = check(pair)
        if evidence:
            yield cause, evidence


def _causes_beside(pair: CallPair) -> Iterator[tuple[Cause, Evidence]]:
    """Causes of which the prompts, settings and times of the record show nothing."""
    event = event_before(pair)
    if event and event[0].explains:
        yield cast(Cause, event[0].cause), event[1]
    shortened = _shortened(pair)
    if shortened:
        yield "messages_changed", shortened


def cause_of_miss(pair: CallPair, expected_tokens: int) -> tuple[Cause, Evidence]:
    """The cause of a miss: the first whose evidence explains most of what was lost; then another server; then a recorded
    change that explains less; `unknown` where there is none.
    """
    read = pair.now.usage.read or 0
    said, partly = diagnosis(pair), None
    for cause, evidence in chain(_recorded_causes(pair), [said] if said else [], _causes_beside(pair)):
        unexplained = max(evidence.keeps or 0, read) - read
        rest = f"; read {read:,}" if evidence.keeps is not None and is_shortfall(evidence.keeps, read) else ""
        found = cause, evidence._replace(text=evidence.text + rest)
        if 2 * unexplained <= expected_tokens - read:
            return found
        partly = partly or (found if evidence.basis == "recorded" else None)
    elsewhere = _other_server(pair)
    if elsewhere:
        return "other_server", elsewhere
    if partly:
        return partly
    event = event_before(pair)
    if event and event[0].attributable >= LEAST_ASSOCIATED:
        return "unknown", event[1]._replace(text=f"associated with {event[1].text}", basis="associated")
    return "unknown", Evidence(without_evidence(pair), "")


LEAST_ASSOCIATED = 0.5
"""An event is told beside an unknown cause where at least so much of the misses behind it is above the base rate."""


def predicted_read(pair: CallPair, expected_tokens: int) -> tuple[int, Cause | None]:
    """What a call will read, as far as is known before its bill, and the cause of the miss where that is less."""
    for cause, evidence in causes_before_bill(pair):
        if evidence.share >= 0.5:
            keeps = pair.lane.head_tokens if evidence.keeps is None else evidence.keeps
            return min(expected_tokens, keeps), cause
    return expected_tokens, None


def without_evidence(pair: CallPair) -> str:
    """Describe a miss for which no cause has evidence."""
    (gap, _), (ttl, _) = gap_seconds(pair), ttl_seconds(pair)
    if pair.prompt and pair.before.outline:
        intact = (
            "prefix intact"
            if pair.is_whole or pair.prompt.level_ends[1]
            else "messages intact, tools and system not in the record"
        )
        return f"{intact}, gap {int(gap)} s ≤ {ttl} s"
    older = _read_of_older_call(pair)
    return f"{f'{older}; ' if older else ''}the prompt was not recorded, and grew; gap {int(gap)} s ≤ {ttl} s"
