"""Causes of misses of calls whose prompt was not recorded, as in transcripts of agent programs: the bills and times of a
call and of the one before it in its lane, and what is remarked of both.

`CAUSES` is the table: each check takes a `CallPair` and returns its `Evidence`, or None. None of them looks at what the
call read, so the same table predicts which calls miss (`contextkit validate`). Only then what was read is asked: whether
a cause explains most of what was lost, and whether another server answered.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, cast

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.facts.observed import EventRates, event_rates, measured_lifetime, miss_share
from contextkit.ledger.calls import OTHER_PROJECT, REROUTED, ModelCall, Outline
from contextkit.ledger.changes.settings import setting_kind
from contextkit.ledger.prompts import Growing, is_without_head
from contextkit.ledger.verdict import WHOSE, Basis, Cause, Gap, Verdict, is_shortfall
from contextkit.models import Model
from contextkit.prompt.diff import common_segments
from contextkit.prompt.prompt import LEVELS

DEFAULT_TTL_SECONDS, LONG_TTL_SECONDS = 300, 3600
"""Lifetimes assumed where neither the prompt nor the model table states one; the second where 1 h writes were billed
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching)."""


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
class CallFacts:
    """The facts of a call needed to judge the next one."""

    call: ModelCall
    """The ledger row."""
    usage: Usage
    """Its bill, with every part of the prompt known."""
    prompt_tokens: int
    """Size of the prompt, as billed."""

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
    unbilled: int = 0
    """Calls without a bill since `before`, which may or may not have kept the cache warm."""
    is_long: bool = False
    """True where 1 h writes were billed."""
    is_ttl_billed: bool = False
    """True where a bill told the lifetime of what was written."""
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


class Messages(NamedTuple):
    """The messages of two calls, of which tools and system text were not recorded."""

    place: str
    """The first block that changed; empty where the later call only goes on."""
    keeps: int
    """Tokens in front of it."""
    setting: str
    """The level whose key changed; empty where none did."""
    epochs: tuple[int, int]
    """Declared rewrites of the history before either."""


class RecordedMessages:
    """The messages that a transcript holds, compared call by call."""

    def __init__(self) -> None:
        self._growing = Growing()
        self._last: dict[tuple[str, str], tuple[Prompt, int]] = {}

    def feed(self, call: ModelCall, *, is_billed: bool) -> Messages | None:
        """Compare a call with the last billed one before it in its lane; None where not both were recorded."""
        sent = call.prompt
        if not is_without_head(call) or not isinstance(sent, Outline):
            return None
        prompt = self._growing.prompt(call)
        if prompt is None or not prompt.n:
            return None
        key = call.session, call.lane
        before, epoch = self._last.get(key, (prompt, sent.epoch))
        if is_billed:
            self._last[key] = prompt, sent.epoch
        n = common_segments(before.digests, before.n, prompt.digests, prompt.n)
        entry = sent.entries[n - sent.keep] if sent.keep <= n < prompt.n else -1
        place = "" if n == before.n else f"messages block {n}" + (f", entry {entry}" if entry >= 0 else "")
        levels = zip(LEVELS, before.namespaces, prompt.namespaces, strict=True)
        setting = next((level for level, was, now in levels if was != now), "")
        return Messages(place, prompt.ends_tokens[n - 1] if n else 0, setting, (epoch, sent.epoch))


@dataclass(frozen=True, slots=True)
class CallPair:
    """A call and the call before it in its lane."""

    lane: LaneState
    """Their lane."""
    before: CallFacts
    """The last call with a bill."""
    now: CallFacts
    """The call under examination."""
    row: Model | None
    """Model of `now`."""
    messages: Messages | None = None
    """How the messages of both compare, where a transcript holds them."""


def call_facts(call: ModelCall, usage: Usage) -> CallFacts:
    """The facts of one call."""
    return CallFacts(call if call.prompt is None else replace(call, prompt=None), usage, usage.prompt or 0)


def is_stored_whole(call: CallFacts, row: Model) -> bool:
    """Whether a call leaves all of its prompt in the cache, as far as is known: an implicit cache, or one whose writes
    nobody reported.
    """
    return row.cache == "implicit" or call.usage.quality("writes") == "partial"


def _model_changed(pair: CallPair) -> Evidence | None:
    before, now = pair.before.call, pair.now.call
    is_same = (before.provider, before.model) == (now.provider, now.model)
    return None if is_same else Evidence(f"{before.provider}/{before.model} → {now.provider}/{now.model}")


def _compaction(pair: CallPair) -> Evidence | None:
    remark = pair.lane.remarks.get("compaction")
    sizes = f"prompt {pair.before.prompt_tokens:,} → {pair.now.prompt_tokens:,} tokens"
    if pair.messages and pair.messages.epochs[0] != pair.messages.epochs[1]:
        remark = "epoch {} → {}".format(*pair.messages.epochs)
    return Evidence(f"{remark}, {sizes}") if remark else None


def _params_changed(pair: CallPair) -> Evidence | None:
    if pair.messages and pair.messages.setting:
        return Evidence(f"{pair.messages.setting}: a request setting outside the prompt's text")
    remark = pair.lane.remarks.get("setting")
    return Evidence(remark) if remark else None


def _rerouted(pair: CallPair) -> Evidence | None:
    """An aggregator has moved to another host: its cache is another one."""
    remark = pair.lane.remarks.get("setting", "")
    return Evidence(remark) if remark.startswith(REROUTED) else None


def _other_project(pair: CallPair) -> Evidence | None:
    """The address names another project: its cache is another one."""
    remark = pair.lane.remarks.get("setting", "")
    return Evidence(remark) if remark.startswith(OTHER_PROJECT) else None


def _messages_changed(pair: CallPair) -> Evidence | None:
    if pair.messages is None or not pair.messages.place:
        return None
    return Evidence(pair.messages.place, keeps=pair.messages.keeps)


def ttl_seconds(pair: CallPair) -> tuple[int, bool]:
    """Lifetime of the last cached prefix, and whether it was billed."""
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
    (gap, _), (ttl, is_recorded) = gap_seconds(pair), ttl_seconds(pair)
    if gap <= ttl:
        measured = measured_lifetime(pair.row.name) if pair.row else None
        if measured is None or gap <= measured.seconds:
            return None
        figures = f"{measured.missed} of {measured.calls} calls after more than {measured.seconds} s missed"
        return Evidence(f"gap {int(gap)} s; {figures}", "measured")
    seconds = f"{gap:.1f}" if int(gap) == ttl else f"{int(gap)}"
    evidence = recorded(f"gap {seconds} s > {ttl} s", is_recorded=is_recorded and not pair.lane.unbilled)
    return evidence._replace(share=_ttl_share(pair))


def _ttl_share(pair: CallPair) -> float:
    """Share of the calls behind such a pause that missed."""
    return 1.0 if gap_seconds(pair)[1] > ttl_seconds(pair)[0] else miss_share("gap from start only")


def _cold_start(pair: CallPair) -> Evidence | None:
    """A pause beyond every lifetime that is sold: nobody could have kept the cache warm."""
    longest = max(pair.row.ttls_seconds) if pair.row else LONG_TTL_SECONDS
    gap, _ = gap_seconds(pair)
    if gap <= longest or _ttl_expired(pair) is None:
        return None
    return Evidence(f"gap {int(gap)} s > {longest} s, the longest lifetime sold", share=_ttl_share(pair))


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


def _aborted(pair: CallPair) -> Evidence | None:
    facts = pair.before
    has_begun = facts.call.first_byte_at is not None or bool(facts.usage.output)
    if facts.call.error is None or has_begun:
        return None
    return Evidence(f"{facts.call.id!r} ended before its response began", "assumed")


def _reasoning_stripped(pair: CallPair) -> Evidence | None:
    """At a user turn the reasoning of the turn before leaves the prompt, so only what stands before it can be read."""
    said = pair.lane.remarks.get("turn", "")
    n_reasoning = int(said) if said.isascii() and said.isdecimal() else 0
    if not n_reasoning or pair.row is None or not pair.row.strips_reasoning or pair.messages:
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
    if pair.messages or now >= before or _reasoning_stripped(pair):
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
    ("compaction", _compaction),
    ("model_changed", _model_changed),
    ("other_server", _rerouted),
    ("account_changed", _other_project),
    ("params_changed", _params_changed),
    ("messages_changed", _messages_changed),
    ("cold_start", _cold_start),
    ("ttl_expired", _ttl_expired),
    ("cold_fan_out", _cold_fan_out),
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
    if pair.messages:
        return f"messages intact, tools and system not in the record, gap {int(gap)} s ≤ {ttl} s"
    older = _read_of_older_call(pair)
    return f"{f'{older}; ' if older else ''}the prompt was not recorded, and grew; gap {int(gap)} s ≤ {ttl} s"


def by_bills(now: CallFacts, lost: int, found: tuple[Cause, Evidence] | None) -> Verdict:
    """The verdict on a call whose prompt was not recorded: its lengths are unknown, and it has one gap at most.

    `lost` is what it read less than the bills promised; `found` is why, None where that is noise.
    """
    gaps: tuple[Gap, ...] = ()
    if found is not None:
        cause, evidence = found
        kind = setting_kind(evidence.text.partition(" ")[0]) if cause == "params_changed" else ""
        gaps = (Gap(WHOSE[cause], cause, lost, _PLACES.get(cause, ""), evidence.text, evidence.basis, kind),)
    return Verdict(now.call.id, now.prompt_tokens, now.usage.read, None, None, None, gaps)


_PLACES: Mapping[Cause, str] = MappingProxyType(
    {
        "ttl_expired": "pause",
        "cold_start": "pause",
        "params_changed": "parameters",
        "model_changed": "parameters",
        "account_changed": "parameters",
        "tools_changed": "tools",
        "system_changed": "system",
        "messages_changed": "messages",
        "reasoning_stripped": "messages",
        "session_resumed": "messages",
    }
)
"""Where a cause stands, as far as a record without prompts tells."""
