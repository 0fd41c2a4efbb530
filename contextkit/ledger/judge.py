"""Judges model calls: what each could have read from the cache, what it lost, whose doing that was, and where.

`Judge` is fed the calls of a recording in the order in which they began. For each call whose prompt is recorded it
measures the four lengths of `verdict.py`: `readable` by the reference cache of the model, which has seen every earlier
call of the same account at the same host, `shared` by an index of running digests, `similar` by an alignment with at most eight earlier
prompts. The gaps between the lengths get one cause each. `docs/explanation/judge.md` has the rules.

A prompt that continues the last one of its conversation costs what it added; any other one costs its length.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from contextkit.cache.prefix_cache import Hit, Lease, PrefixCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableRequest
from contextkit.facts.observed import ReadStep, read_steps
from contextkit.ledger.calls import INFERRED_LANE, OTHER_PROJECT, REROUTED, Bodies, ModelCall, Outline
from contextkit.ledger.changes.settings import changed_settings, setting_kind
from contextkit.ledger.prompts import MISFITS, Growing, Read, is_without_head, read_body
from contextkit.ledger.verdict import Basis, Cause, Gap, Verdict, Whose
from contextkit.models import Model, place_in, without_region
from contextkit.prompt.alignment import Alignment, Unit, align, is_opaque, units_of
from contextkit.prompt.diff import common_bytes, common_segments, difference, path_of
from contextkit.prompt.prompt import LEVELS, PromptLayout
from contextkit.providers.body_items import n_leading
from contextkit.redact import redact

if TYPE_CHECKING:
    from contextkit.ledger.changes.kinds import NamedChange

MOST_CANDIDATES = 8
"""Earlier prompts that one call is aligned with."""
_RECENT = 3
"""Last calls of a conversation that a call is compared with."""
_HEADS = 4
"""Other conversations whose last call a call is compared with."""
_HEAD_SHARE = 0.5
"""Least share of tools and system text that two conversations of one agent have in common."""
_SAME_CONVERSATION_SHARE = 0.25
"""Least share of a short prompt that it has in common with the call before, to be the same conversation changed."""
_CLOSED_SHARE = 0.1
"""Most of a loss that may be left for something to have closed it."""
_REWRITTEN_SHARE = 0.8
"""A history of which less than this share is left was cut on purpose."""
MOST_BYTES = 64 << 20
"""Bodies of earlier prompts that are kept; of those evicted, digests only."""
_MOST_LEFT = 4_096
"""Calls of a conversation of which it is remembered what they left in the cache."""
MOST_DIGESTS = 1 << 19
"""Running digests in the index."""
_ALWAYS_REPORTING = ("anthropic", "aws", "azure", "deepseek", "google", "openai")
"""Hosts that say of each call what was read."""
MOST_CONVERSATIONS = 1 << 16
"""Conversations of which the last calls are kept; of those not used for longest, the index knows what it holds."""


class Ruler:
    """Tokens at the block ends of a prompt: estimates, stretched between the places where a bill told the true size."""

    def __init__(self, ends: Sequence[int], n: int, anchors: Iterable[tuple[int, int]]) -> None:
        """`ends` are the estimates; `anchors` are (number of blocks, tokens)."""
        self._ends, self._n = ends, n
        places = [(0, 0)]
        for blocks, tokens in sorted(anchors):
            if blocks > places[-1][0] and tokens >= places[-1][1] and blocks <= n:
                places.append((blocks, tokens))
        self._places = places

    def at(self, blocks: int) -> int:
        """Return the tokens of the first `blocks` blocks."""
        index = bisect_left(self._places, (blocks, -1))
        if index < len(self._places) and self._places[index][0] == blocks:
            return self._places[index][1]
        low_blocks, low = self._places[index - 1]
        start, end = self._estimate(low_blocks), self._estimate(blocks)
        if index < len(self._places):
            high_blocks, high = self._places[index]
            whole = self._estimate(high_blocks) - start
            return low + round((high - low) * (end - start) / whole) if whole else low
        return low + round((end - start) * (low / start if start else 1.0))

    def n_same(self, other: Ruler) -> int:
        """Blocks up to which both measure alike, where their estimates are equal."""
        return self._places[n_leading(self._places, other._places) - 1][0]

    def _estimate(self, blocks: int) -> int:
        return self._ends[blocks - 1] if blocks else 0


@dataclass(slots=True, eq=False)
class Sent:
    """A call with its prompt."""

    call: ModelCall
    """The call, without its prompt."""
    row: Model
    """Rules of its model."""
    scope: _Scope
    """The calls it may share a cache with."""
    prompt: Prompt
    """Its prompt as a cache sees it."""
    layout: PromptLayout | None
    """Its blocks with their bytes; None where they were not recorded, or evicted."""
    usage: Usage | None
    """Its bill."""
    settings: Mapping[str, Json] = field(default_factory=dict)
    """Settings of its request that key a cache, where they were recorded."""
    raw: bytes = b""
    """Its request body, as long as its blocks are kept."""
    epoch: int = 0
    """How many declared rewrites came before it."""
    entries: Sequence[int] = ()
    """Log entry of each block, where that is recorded."""
    anchors: tuple[tuple[int, int], ...] = ()
    """(blocks, tokens) that bills told of it."""
    units: list[Unit] | None = None
    """Its blocks as an alignment sees them, once that was asked."""
    read: Read | None = None
    """Its body, for one that continues it; None where a later call of its conversation has come, or it was evicted."""

    @property
    def began_at(self) -> float | None:
        """When its writes became readable; None where it failed before its response began."""
        call = self.call
        if call.first_byte_at is not None:
            return call.first_byte_at
        if call.error is not None and not (self.usage and self.usage.output):
            return None
        return call.at if call.ended_at is None else call.ended_at

    def written(self) -> Iterator[Breakpoint]:
        """Yield the breakpoints it wrote an entry at."""
        return (mark for mark in self.prompt.breakpoints if mark.is_written)

    def shares_cache_with(self, one: Sent) -> bool:
        """Return whether it may read what another call left: same account, host and model."""
        return self.scope is one.scope and self.row.name == one.row.name

    def is_resend_of(self, one: Sent) -> bool:
        """Return whether it repeats a call of its conversation that failed."""
        was, now = one.prompt, self.prompt
        return (
            one.call.error is not None
            and (one.call.session, one.call.lane) == (self.call.session, self.call.lane)
            and self.shares_cache_with(one)
            and was.n == now.n
            and was.digests[was.n - 1] == now.digests[now.n - 1]
            and was.namespaces == now.namespaces
        )

    def level(self, segment: int) -> int:
        """Level of a block."""
        tools, system = self.prompt.level_ends
        return (segment >= tools) + (segment >= system)


class _Earlier(NamedTuple):
    """An earlier call beside the one that is judged."""

    sent: Sent
    n_shared: int
    """Blocks of the common prefix."""
    is_own: bool
    """Whether it belongs to the same conversation."""

    def has_keys_of(self, now: Sent) -> bool:
        """Return whether its request settings key what both share as those of `now` do."""
        last = now.level(self.n_shared - 1) if self.n_shared else -1
        return self.sent.prompt.namespaces[: last + 1] == now.prompt.namespaces[: last + 1]


@dataclass(slots=True)
class _Conversation:
    """What is kept of one conversation."""

    recent: deque[Sent] = field(default_factory=lambda: deque(maxlen=_RECENT))
    left: array[int] = field(default_factory=lambda: array("q"))
    """Tokens that each call left in the cache since the history was last rewritten, the last few thousand calls."""
    first_tokens: int = 0
    """Size of the first prompt since then."""

    def note(self, trial: _Trial, verdict: Verdict) -> None:
        """Note what a call has left in the cache."""
        usage = trial.sent.usage
        if usage is None or usage.read is None:
            return
        if any(gap.cause == "compaction" for gap in verdict.gaps):
            del self.left[:]
        elif len(self.left) >= _MOST_LEFT:
            del self.left[: _MOST_LEFT // 2]
        self.first_tokens = self.first_tokens if self.left else verdict.prompt
        self.left.append(usage.read + (usage.written or 0) if trial.is_marked else trial.rounding.down(verdict.prompt))


class Rounding:
    """How reads of a model are rounded down: as documented, until a read contradicts that; then as measured, if a measured
    step fits; else not at all.
    """

    __slots__ = ("_least", "_steps")

    def __init__(self, row: Model) -> None:
        self._least = row.min_tokens
        documented = [ReadStep(row.granularity_tokens)] if row.granularity_tokens > 1 else []
        self._steps = [*documented, *read_steps(row.name), ReadStep(1)]

    def observe(self, read: int) -> None:
        """Learn from a read that was billed."""
        while len(self._steps) > 1 and not self._steps[0].fits(read):
            del self._steps[0]

    def down(self, tokens: int) -> int:
        """Return the longest read of a prefix."""
        return self._steps[0].down(tokens) if tokens >= self._least else 0


@dataclass(slots=True)
class _Scope:
    """The calls that may share a cache: those of one account at one host, as far as a recording names them."""

    caches: dict[str, PrefixCache[Prompt]] = field(default_factory=dict)
    pending: list[tuple[float, PrefixCache[Prompt], Lease]] = field(default_factory=list)
    """Calls whose response has not begun: when it does, cache, lease."""
    index: OrderedDict[tuple[str, bytes], Sent] = field(default_factory=OrderedDict)
    """(model, running digest) → the call that first had this prefix."""
    heads: dict[str, OrderedDict[tuple[str, str], Sent]] = field(default_factory=dict)
    """Model → conversation → its last call, the one used last at the end."""
    roundings: dict[str, Rounding] = field(default_factory=dict)
    reporting: set[str] = field(default_factory=set)
    """Models of which a read or a write was billed."""

    def cache(self, row: Model) -> PrefixCache[Prompt]:
        """Return the cache of a model."""
        cache = self.caches.get(row.name)
        if cache is None:
            cache = self.caches[row.name] = reference_cache(row)
        return cache

    def publish(self, now: float) -> None:
        """Let every response begin that has begun by now."""
        if self.pending and self.pending[0][0] <= now:
            for began, cache, lease in self.pending:
                if began <= now:
                    cache.publish(lease, began)
            self.pending = [one for one in self.pending if one[0] > now]


_POOL = ("provider", "host", "account", "region")
"""What calls that share a cache have in common."""


def _pool_of(call: ModelCall) -> tuple[str, str, str, str]:
    """Provider, host, account and region of a call; Amazon and Google say the last two in the name of the model."""
    account, region = place_in(call.model)
    return call.provider, call.host, call.account or account, region


class Judge:
    """Judges the calls of a recording, fed in the order in which they began."""

    def __init__(self) -> None:
        self._scopes: dict[tuple[str, ...], _Scope] = {}
        self._conversations: OrderedDict[tuple[str, str], _Conversation] = OrderedDict()
        self._growing = Growing()
        self._entries: dict[tuple[str, str], list[int]] = {}
        self._kept: OrderedDict[int, Sent] = OrderedDict()
        self._n_bytes = 0
        self.sent: Sent | None = None
        """The last call with its prompt; None where that is not recorded, or was refused."""

    def feed(self, call: ModelCall, row: Model, usage: Usage | None, remarks: Mapping[str, str]) -> Verdict | None:
        """Judge the next call; None where its prompt is not recorded, or was refused.

        `usage` is its bill with every part of the prompt known, None where a part is not; `remarks` are about what
        happened between it and the call before.
        """
        if usage is not None and (usage.read or usage.written):
            self._scope(call).reporting.add(call.model)
        trial = self._trial(call, row, usage, remarks)
        self.sent = None
        if trial is None or call.is_refused:
            return None
        verdict = trial.verdict()
        self.sent = trial.sent
        trial.conversation.note(trial, verdict)
        trial.begin()
        self._remember(trial.conversation, trial.sent)
        return verdict

    def is_silent(self, call: ModelCall) -> bool:
        """Return whether nothing has shown so far that a host reports what is read: it may, and not say so."""
        return call.provider not in _ALWAYS_REPORTING and call.model not in self._scope(call).reporting

    def _scope(self, call: ModelCall) -> _Scope:
        pool = _pool_of(call)
        return self._scopes.get(pool) or self._scopes.setdefault(pool, _Scope())

    def forecast(self, call: ModelCall, row: Model) -> Verdict | None:
        """Judge a call that is about to be sent; nothing is kept of it. None where its prompt cannot be read."""
        trial = self._trial(call, row, None, {})
        return None if trial is None else trial.verdict()

    def _trial(self, call: ModelCall, row: Model, usage: Usage | None, remarks: Mapping[str, str]) -> _Trial | None:
        sent = self._sent(call, row, usage)
        if sent is None or is_without_head(call):
            return None
        sent.scope.publish(call.at)
        conversation = self._conversations.setdefault((call.session, call.lane), _Conversation())
        return _Trial(sent, conversation, remarks, is_silent=self.is_silent(call))

    def _sent(self, call: ModelCall, row: Model, usage: Usage | None) -> Sent | None:
        if call.prompt is None:
            return None
        bare, scope = replace(call, prompt=None), self._scope(call)
        if isinstance(call.prompt, Bodies):
            body = call.prompt.request
            read = read_body(body, call.provider, call.model, self._near(call, scope, row))
            if read is None or not read.prompt.n:
                return None
            return Sent(bare, row, scope, read.prompt, read.layout, usage, read.settings, body, read=read)
        prompt = self._growing.prompt(call)
        if prompt is None or not isinstance(call.prompt, Outline) or not prompt.n:
            return None
        entries = self._entries.setdefault((call.session, call.lane), [])
        entries[call.prompt.keep :] = call.prompt.entries
        return Sent(bare, row, scope, prompt, None, usage, epoch=call.prompt.epoch, entries=tuple(entries))

    def _near(self, call: ModelCall, scope: _Scope, row: Model) -> list[Read]:
        """Bodies that the body of `call` is likely to begin with: the last of its conversation, and of others of its model."""
        conversation = self._conversations.get((call.session, call.lane))
        last = conversation.recent[-1] if conversation and conversation.recent else None
        heads = islice(reversed(scope.heads.get(row.name, {}).values()), _HEADS)
        return list(
            {id(sent): sent.read for sent in (last, *heads) if sent is not None and sent.read is not None}.values()
        )

    def _remember(self, conversation: _Conversation, sent: Sent) -> None:
        if sent.layout is not None:
            sent.prompt = _sharing(sent.prompt, conversation.recent[-1].prompt if conversation.recent else None)
        call, prompt, scope, name = sent.call, sent.prompt, sent.scope, sent.row.name
        for segment in range(prompt.n - 1, -1, -1):
            key = name, prompt.digests[segment]
            if key in scope.index:
                break
            scope.index[key] = sent
        while len(scope.index) > MOST_DIGESTS:
            scope.index.popitem(last=False)
        if conversation.recent:
            self._drop_body(conversation.recent[-1])
            if sent.is_resend_of(conversation.recent[-1]):
                conversation.recent.pop()
        conversation.recent.append(sent)
        self._conversations.move_to_end((call.session, call.lane))
        while len(self._conversations) > MOST_CONVERSATIONS:
            self._conversations.popitem(last=False)
        heads = scope.heads.setdefault(name, OrderedDict())
        heads.pop((call.session, call.lane), None)
        heads[call.session, call.lane] = sent
        while len(heads) > 4 * _HEADS:
            heads.popitem(last=False)
        if sent.layout is not None:
            self._kept[id(sent)] = sent
            self._n_bytes += _n_bytes(sent)
            while self._n_bytes > MOST_BYTES and len(self._kept) > 1:
                old = self._kept.popitem(last=False)[1]
                self._n_bytes -= _n_bytes(old)
                old.layout = old.units = old.read = None
                old.raw = b""

    def _drop_body(self, sent: Sent) -> None:
        """Drop what only the next call of a conversation needs of the one before."""
        self._n_bytes -= _n_bytes(sent)
        sent.read = None
        self._n_bytes += _n_bytes(sent)


class _Trial:
    """The judgement of one call."""

    def __init__(
        self,
        sent: Sent,
        conversation: _Conversation,
        remarks: Mapping[str, str],
        *,
        is_silent: bool,
    ) -> None:
        self.sent, self.scope, self.conversation, self.remarks = sent, sent.scope, conversation, remarks
        self.is_silent = is_silent
        self.is_marked = sent.row.cache == "breakpoints"
        self.earlier = self._earlier()
        self.rounding = self.scope.roundings.setdefault(sent.row.name, Rounding(sent.row))
        sent.anchors = self._anchors()
        self.ruler = Ruler(sent.prompt.ends_tokens, sent.prompt.n, sent.anchors)
        if sent.layout is not None and sent.anchors:  # what the cache counts is what was billed
            sent.prompt = replace(sent.prompt, ends_tokens=self._billed_ends(sent.layout))

    # Earlier calls

    def _earlier(self) -> list[_Earlier]:
        """Return the calls that this one is compared with, its conversation's last ones first; a resend is not compared with
        the call that it repeats: what that would have lost is counted once.
        """
        own, seen, found = self.conversation.recent, set[int](), list[_Earlier]()

        def add(sent: Sent, *, is_own: bool) -> None:
            if id(sent) not in seen and len(found) < MOST_CANDIDATES and not self.sent.is_resend_of(sent):
                seen.add(id(sent))
                found.append(_Earlier(sent, _common(sent.prompt, self.sent.prompt), is_own))

        for sent in reversed(own):
            add(sent, is_own=True)
        last = found[0] if found else None
        deepest = self._deepest()
        if deepest is not None:
            call = deepest.call
            add(deepest, is_own=(call.session, call.lane) == (self.sent.call.session, self.sent.call.lane))
        if last is None or last.n_shared < last.sent.prompt.n:
            agent = agent_of(self.sent.call.lane)
            heads = self.scope.heads.get(self.sent.row.name, OrderedDict())
            others = [head for head in reversed(heads.values()) if agent_of(head.call.lane) == agent]
            for sent in others[:_HEADS]:
                add(sent, is_own=False)
        return found

    def _deepest(self) -> Sent | None:
        """Find the call that first had the longest prefix of this prompt that is known."""
        index, name, prompt = self.scope.index, self.sent.row.name, self.sent.prompt
        low, high = 0, prompt.n
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if (name, prompt.digests[middle - 1]) in index else (low, middle - 1)
        return index[name, prompt.digests[low - 1]] if low else None

    # Sizes

    def _anchors(self) -> tuple[tuple[int, int], ...]:
        """Places of this prompt whose size bills told: those of the earlier prompts of its model that it begins with, and its
        own.
        """
        size = self.sent.usage.prompt if self.sent.usage else None
        anchors = {
            blocks: tokens
            for one in reversed(self.earlier)
            if one.sent.row.name == self.sent.row.name
            for blocks, tokens in one.sent.anchors
            if blocks <= one.n_shared and (size is None or tokens <= size)
        }
        return tuple(sorted((anchors | _billed_places(self.sent)).items()))

    def _billed_ends(self, layout: PromptLayout) -> array[int]:
        """Return the tokens at every block end by the bills; those of the last call as far as its bills say the same."""
        was = self.earlier[0] if self.earlier else None
        ends = array("q")
        if was is not None and was.sent.layout is not None:
            before = was.sent.prompt
            n = min(self.ruler.n_same(Ruler(before.ends_tokens, before.n, was.sent.anchors)), was.n_shared)
            if was.sent.layout.columns.sizes[:n] == layout.columns.sizes[:n]:
                ends.extend(before.ends_tokens[:n])
        ends.extend(self.ruler.at(blocks) for blocks in range(len(ends) + 1, self.sent.prompt.n + 1))
        return ends

    def _units(self, sent: Sent) -> list[Unit]:
        if sent.units is None:
            if sent.layout is not None:
                sent.units = units_of(sent.layout)
            else:  # of blocks that nobody numbered, those of one size stand for each other
                ends = sent.prompt.ends_tokens
                sizes = [ends[i] - (ends[i - 1] if i else 0) for i in range(sent.prompt.n)]
                sent.units = [
                    Unit(sent.level(i), b"%d %d %d" % (sent.level(i), entry, size), None, size)
                    for i, (entry, size) in enumerate(zip(sent.entries, sizes, strict=False))
                ]
        return sent.units

    def _alignments(self) -> list[tuple[int, _Earlier, Alignment]]:
        """Align this prompt with each earlier one: the tokens they have in common, and the pairs of their blocks; with one of
        another agent, the common prefix only: agents have prompts of their own.
        """
        now, result = self.sent, list[tuple[int, _Earlier, Alignment]]()
        weights = [self.ruler.at(i + 1) - self.ruler.at(i) for i in range(now.prompt.n)]
        for one in self.earlier:
            was = one.sent
            is_one_agent = agent_of(was.call.lane) == agent_of(now.call.lane)
            if is_one_agent and (was.layout is None) == (now.layout is None) and (was.layout or one.is_own):
                pairs = align(
                    self._units(was),
                    self._units(now),
                    weights,
                    one.n_shared,
                    now.row.min_tokens if one.is_own else None,
                )
            else:
                pairs = Alignment(tuple((i, 1.0) for i in range(one.n_shared)), ())
            if one.is_own or self._is_one_head(one, pairs, weights):
                result.append((round(sum(weights[i] * share for i, share in pairs.kept)), one, pairs))
        return result

    def _is_one_head(self, one: _Earlier, pairs: Alignment, weights: Sequence[int]) -> bool:
        """Return whether at least half of the tools and half of the system text are equal; where there are neither, whether
        the first block is.
        """
        start, has_head = 0, False
        for end in self.sent.prompt.level_ends:
            size = sum(weights[start:end])
            same = sum(weights[i] * share for i, share in pairs.kept if start <= i < end)
            if same < _HEAD_SHARE * size:
                return False
            start, has_head = end, has_head or size > 0
        return has_head or one.n_shared > 0

    # Lengths and gaps

    def begin(self) -> None:
        """Let the cache take the call, from when its response began."""
        began_at, cache = self.sent.began_at, self.scope.cache(self.sent.row)
        if began_at is not None:
            self.scope.pending.append((began_at, cache, cache.begin(self.sent.prompt, self.sent.call.at)))
            self.scope.pending.sort(key=lambda one: one[0])

    def verdict(self) -> Verdict:
        """Return the verdict on this call; without a bill, with what the reference cache would bill."""
        cache, call = self.scope.cache(self.sent.row), self.sent.call
        verdict = self._verdict(cache.lookup(self.sent.prompt, call.at))
        return verdict if call.usage is not None else replace(verdict, quote=cache.quote(self.sent.prompt, call.at))

    def _verdict(self, hit: Hit) -> Verdict:
        sent, ruler, usage = self.sent, self.ruler, self.sent.usage
        size = usage.prompt if usage and usage.prompt is not None else ruler.at(sent.prompt.n)
        read = usage.read if usage else None
        if read is not None:
            self.rounding.observe(read)
        own = self.earlier[0] if self.earlier and self.earlier[0].is_own else None
        is_continued = own is not None and own.n_shared == own.sent.prompt.n
        alignments = [] if is_continued else self._alignments()
        if not is_continued:
            self.earlier = [one for _, one, _ in alignments]
        owner = max(
            self.earlier,
            key=lambda one: (one.n_shared, _partial(one, sent), one.has_keys_of(sent), one.is_own, one.sent.call.at),
            default=None,
        )
        if owner is None:
            return self._alone(size, read, hit)
        whole = ruler.at(owner.n_shared)
        shared = self.common_tokens(owner)
        best, pairs, similar = owner, None, shared
        if alignments:
            similar, best, pairs = max(alignments, key=lambda one: (one[0], one[1].is_own, one[1].n_shared))
        predicted = self._readable(hit)
        readable = max(predicted, read or 0)
        shared = max(shared, readable)
        similar = max(similar, shared)
        lengths = _Lengths(whole, shared, readable, similar, read)
        gaps = [
            gap
            for gap in _merged(_Gaps(self, owner, best, pairs, lengths).all())
            if not (self.is_silent and gap.is_unproven)
        ]
        return Verdict(
            sent.call.id,
            size,
            read,
            readable,
            shared,
            similar,
            tuple(sorted(gaps, key=lambda gap: (not gap.is_avoidable, -gap.tokens))),
            best.sent.call.id,
            tuple(one.sent.call.id for one in self.earlier),
            max((read or 0) - predicted, 0),
            predicted,
        )

    def _alone(self, size: int, read: int | None, hit: Hit) -> Verdict:
        """Return the verdict on a call that nothing earlier resembles; what it begins with may have been cached nevertheless."""
        predicted = self._readable(hit)
        found = predicted if read is None else read
        readable = max(found, predicted)
        gaps: tuple[Gap, ...] = ()
        if readable > found and not self.is_silent:
            text = "a call of another conversation had cached what it begins with"
            gaps = (Gap("unexplained", "unknown", readable - found, evidence=text, basis=""),)
        elif not readable:
            gaps = (self._first_gap(size),)
        return Verdict(
            self.sent.call.id,
            size,
            read,
            readable,
            readable,
            readable,
            gaps,
            rule_error=max((read or 0) - predicted, 0),
            predicted_read=predicted,
        )

    def _first_gap(self, size: int) -> Gap:
        """Name the reason why a first call had nothing to read."""
        if size < self.sent.row.min_tokens:
            basis: Basis = "assumed" if self.sent.row.is_assumed else "recorded"
            return Gap("nobody", "below_minimum", 0, evidence=self.below_minimum(size), basis=basis)
        text = f"nothing was cached in lane {self.sent.call.lane!r} before"
        return Gap("nobody", "first_write", 0, evidence=text)

    def below_minimum(self, tokens: int) -> str:
        """Say that so many tokens are too few to be cached."""
        row = self.sent.row
        least = f"{row.min_tokens:,}" + (f", {row.source.partition(':')[0]}" if row.is_assumed else "")
        return f"{tokens:,} tokens; the least that is cached is {least}"

    def _readable(self, hit: Hit) -> int:
        """Return what the reference cache held, in billed tokens. A cache that keeps every prompt is read up to the first
        difference, also inside a block.
        """
        end = 0 if hit.segment is None else self.ruler.at(hit.segment + 1)
        if self.is_marked or self.sent.row.cache == "units":
            return end
        return self.rounding.down(max([end, *(self.common_tokens(one) for one in self.earlier if self._holds(one))]))

    def _holds(self, one: _Earlier) -> bool:
        """Return whether an earlier prompt of this model has begun to be answered, lives, and is keyed as this one up to
        the first difference.
        """
        was, now = one.sent, self.sent
        at, began, level = now.call.at, was.began_at, now.level(min(one.n_shared, now.prompt.n - 1))
        is_there = began is not None and began <= at < was.call.at + now.row.default_ttl_seconds
        has_keys = was.prompt.namespaces[: level + 1] == now.prompt.namespaces[: level + 1]
        return is_there and has_keys and was.shares_cache_with(now)

    def common_tokens(self, one: _Earlier) -> int:
        """Return the tokens of the common prefix with an earlier call, up to the first byte that differs."""
        whole, n = self.ruler.at(one.n_shared), min(one.n_shared + 1, self.sent.prompt.n)
        return whole + round(_partial(one, self.sent) * (self.ruler.at(n) - whole))

    def ideal(self, tokens: int) -> int:
        """Return the most that a program could read of a common prefix of so many tokens."""
        if self.is_marked:
            return tokens if tokens >= self.sent.row.min_tokens else 0
        return self.rounding.down(tokens)


_BLOCK_BYTES = 320
"""Memory of a block beside its body."""
_READ_BYTES = 4
"""Memory of a body that can be continued, its values included, for each of its bytes."""


def _n_bytes(sent: Sent) -> int:
    """Return the memory that the blocks of a call take."""
    n_bytes = _READ_BYTES * len(sent.read.body.raw) if sent.read else 0
    return n_bytes + (sent.layout.n_bytes + len(sent.raw) + _BLOCK_BYTES * sent.layout.n if sent.layout else 0)


def _sharing(prompt: Prompt, before: Prompt | None) -> Prompt:
    """Put a prompt on the columns of the one before, as far as it continues that: the index keeps the prompts of all
    calls, and a long conversation would otherwise take the square of its length.
    """
    ends = array("q", prompt.ends_tokens)
    shared = _common(before, prompt) if before else 0
    if before is None or not shared:
        digests = [*prompt.digests[: prompt.n]]
        return replace(prompt, digests=digests, ends_tokens=ends, positions=array("q", prompt.positions))
    positions = before.positions
    if (
        shared == before.n == len(before.digests) == len(positions)
        and isinstance(before.digests, list)
        and isinstance(positions, array)
        and positions == array("q", prompt.positions[:shared])
    ):  # what the prompt before has borrowed grows behind it
        digests = before.digests
        digests.extend(prompt.digests[shared : prompt.n])
        positions.extend(prompt.positions[shared : prompt.n])
    else:
        digests = [*before.digests[:shared], *prompt.digests[shared : prompt.n]]
        positions = array("q", prompt.positions)
    return replace(prompt, digests=digests, positions=positions, ends_tokens=ends)


def _billed_places(sent: Sent) -> dict[int, int]:
    """Return the places of a prompt whose size its own bill tells: its end, and its last breakpoint."""
    usage, places = sent.usage, dict[int, int]()
    if usage is None or usage.prompt is None:
        return places
    last = max((mark.segment for mark in sent.written()), default=None)
    cached = (usage.read or 0) + (usage.written or 0)
    places[sent.prompt.n] = usage.prompt
    if last is not None and sent.row.cache == "breakpoints" and cached and usage.quality("writes") == "billed":
        places[last + 1] = cached
    return places


def _common(one: Prompt, other: Prompt) -> int:
    return common_segments(one.digests, one.n, other.digests, other.n)


def _partial(one: _Earlier, now: Sent) -> float:
    """Return the share of the first different block that both begin with; nothing where their roles differ."""
    was, n = one.sent, one.n_shared
    if was.layout is None or now.layout is None or n >= min(was.prompt.n, now.prompt.n) or was.level(n) != now.level(n):
        return 0.0
    earlier, later = was.layout.columns, now.layout.columns
    if earlier.message_role(n) != later.message_role(n):
        return 0.0
    before, after = earlier.body(n), later.body(n)
    return 0.0 if not after or is_opaque(before) or is_opaque(after) else common_bytes(before, after) / len(after)


def _merged(gaps: Iterable[Gap]) -> Iterable[Gap]:
    """Merge gaps of one cause and kind."""
    found: dict[tuple[str, str, str], Gap] = {}
    for gap in gaps:
        key = gap.whose, gap.cause, gap.kind or gap.place
        first = found.get(key, gap)
        larger = max(first, gap, key=lambda one: one.tokens)
        found[key] = gap if first is gap else replace(larger, tokens=first.tokens + gap.tokens)
    return found.values()


def agent_of(lane: str) -> str:
    """Return the agent whose calls a lane holds; empty for the main one.

    >>> agent_of("main"), agent_of("conversation 2"), agent_of("reviewer 2")
    ('', '', 'reviewer')
    """
    name, _, number = lane.rpartition(" ")
    agent = name if name and number.isdecimal() else lane
    return "" if agent in ("", "main", INFERRED_LANE.strip()) else agent


class _Gaps:
    """The gaps between the lengths of one call, with their causes."""

    def __init__(
        self, trial: _Trial, owner: _Earlier, best: _Earlier, pairs: Alignment | None, lengths: _Lengths
    ) -> None:
        self._trial, self._sent, self._owner, self._best, self._pairs = trial, trial.sent, owner, best, pairs
        self._lengths = lengths

    def all(self) -> Iterator[Gap]:
        """Yield every gap."""
        trial, lengths = self._trial, self._lengths
        read = lengths.readable if lengths.read is None else lengths.read
        if lengths.similar < self._sent.row.min_tokens:
            yield Gap("nobody", "below_minimum", lengths.similar - read, evidence=trial.below_minimum(lengths.similar))
            least = _SAME_CONVERSATION_SHARE if self._best.is_own else _HEAD_SHARE
            is_alike = lengths.similar >= least * self._sent.prompt.n_tokens
            if read < lengths.similar and is_alike:  # a longer prompt would lose it
                yield from self._named(self._change())
                is_own_cache = self._best.sent.shares_cache_with(self._sent)
                setting = self._changed_setting() if is_own_cache else self._other_cache(self._best)
                yield from (setting,) if setting else ()
            return
        if not self._best.sent.shares_cache_with(self._sent):
            yield replace(self._other_cache(self._best), tokens=lengths.similar - lengths.readable)
            if lengths.readable > read:
                yield self._provider(lengths.readable - read)
            yield from self._named(self._change())
            return
        ideal = max(trial.ideal(lengths.whole if trial.is_marked else lengths.shared), lengths.readable)
        change = self._change()
        use = self._use(ideal) if ideal > lengths.readable else None
        if change is not None and trial.is_marked and use is None:
            use = self._moved_breakpoint(ideal)
            ideal = ideal if use else lengths.readable
        if use is not None:
            yield replace(use, tokens=max(ideal - lengths.readable, 0))
        if change is not None and lengths.similar > ideal:
            yield from self._named(replace(change, tokens=lengths.similar - ideal))
        elif lengths.shared > ideal:
            yield Gap("nobody", "rules", lengths.shared - ideal, evidence="rounding, or part of a block")
        if lengths.readable > read:
            yield self._provider(lengths.readable - read)

    def _other_cache(self, one: _Earlier) -> Gap:
        """Return the gap of a call that left its prompt in another cache, of another model, host or account, without its
        size.
        """
        was, now = one.sent.call, self._sent.call
        if without_region(one.sent.row.name) != without_region(self._sent.row.name):
            text = f"{was.provider}/{was.model} → {now.provider}/{now.model}"
            return Gap("program_use", "model_changed", 0, "parameters", text)
        pairs = zip(_POOL, _pool_of(was), _pool_of(now), strict=True)
        name, old, new = next((name, old, new) for name, old, new in pairs if old != new)
        text = f"{name} {old or 'unknown'} → {new or 'unknown'}"
        return Gap("program_use", "account_changed", 0, "parameters", text)

    # The program's bytes

    def _change(self) -> Gap | None:
        """Find the first change of what need not change, without its size; None where the prompt only goes on, or is another."""
        best, pairs = self._best, self._pairs
        was, n = best.sent, best.n_shared
        if pairs is None or n >= was.prompt.n or (pairs.last < n and not self._replaces_history()):
            return self._declared()
        place, before, after, level = self._difference(was, n)
        if self._is_rewrite(level):
            return self._rewrite(place)
        columns = self._sent.layout.columns if self._sent.layout else None
        if columns and any(n in indexes for _, indexes, name in columns.strips if name == "thinking_blocks"):
            text = "reasoning of earlier turns left the prompt at a user message"
            return Gap("program_bytes", "reasoning_stripped", 0, place, text, "documented", was=before, now=after)
        cause: Cause = _CHANGED[level]
        return Gap("program_bytes", cause, 0, place, was=before, now=after)

    def _named(self, gap: Gap | None) -> Iterator[Gap]:
        """Yield the gap of a change with its kind, then one without tokens for each later change of what was cached."""
        if gap is None or gap.cause not in _CHANGED:
            yield from () if gap is None or not gap.tokens else (gap,)
            return
        from contextkit.ledger.changes.kinds import gap_of  # most calls changed nothing

        changes = _changes(self._best.sent, self._sent)
        if changes:
            first = gap_of(changes[0])
            is_field = first.place.split("[")[0] == gap.place.split("[")[0]
            at = gap if is_field else first  # `instructions` are rendered as an item of `input`
            yield replace(gap, place=at.place, kind=first.kind, evidence=first.evidence, was=at.was, now=at.now)
        elif gap.tokens and changes is not None and _SERVER_EDITS in self._sent.raw:
            yield replace(gap, whose="nobody", cause="compaction", evidence=_SERVER_EDIT, was="", now="")
        elif gap.tokens:
            yield gap
        for one in (changes or ())[1:]:
            if one.change.is_cached and one.is_narrow:
                yield gap_of(one)

    def _replaces_history(self) -> bool:
        """Return whether the conversation goes on behind another history than it had."""
        return (
            self._best.is_own
            and self._sent.prompt.n > self._best.n_shared + 1
            and self._best.sent.prompt.n > self._best.n_shared
        )

    def _declared(self) -> Gap | None:
        return self._rewrite("") if self._is_declared() else None

    def _is_declared(self) -> bool:
        is_own = self._best.is_own
        return is_own and ("compaction" in self._trial.remarks or self._best.sent.epoch != self._sent.epoch)

    def _is_rewrite(self, level: int) -> bool:
        if self._is_declared():
            return True
        was, ruler = self._best.sent.prompt, self._trial.ruler
        size = Ruler(was.ends_tokens, was.n, self._best.sent.anchors).at(was.n)
        is_cut = bool(self._pairs and self._pairs.removed) and ruler.at(self._sent.prompt.n) < _REWRITTEN_SHARE * size
        return self._best.is_own and level == _MESSAGES and is_cut

    def _rewrite(self, place: str) -> Gap:
        was, now = self._best.sent, self._sent
        remark = self._trial.remarks.get("compaction") or (
            f"epoch {was.epoch} → {now.epoch}" if was.epoch != now.epoch else "the history was cut"
        )
        before = was.usage.prompt if was.usage and was.usage.prompt else was.prompt.n_tokens
        text = f"{remark}, prompt {before:,} → {self._trial.ruler.at(now.prompt.n):,} tokens"
        return Gap("nobody", "compaction", 0, place, text)

    def _difference(self, was: Sent, n: int) -> tuple[str, str, str, int]:
        """Locate the first difference: its place, the texts around it, and its level."""
        now = self._sent
        is_removed = n >= now.prompt.n or (n < was.prompt.n and was.level(n) < now.level(n))
        side = was if is_removed else now
        level = side.level(n)
        if side.layout is None or was.layout is None or now.layout is None:
            entry = side.entries[n] if n < len(side.entries) else -1
            place = f"{LEVELS[level]} block {n}"
            return (f"{place}, entry {entry}" if entry >= 0 else place), "", "", level
        path = path_of(side.layout.columns, n)
        one, other = (
            sent.layout.columns.body(n) if sent.layout and n < sent.prompt.n and sent.level(n) == level else b""
            for sent in (was, now)
        )
        offset, *_ = difference(one, other)
        _, before, after = difference(redact(one), redact(other))  # a secret that is cut is not known for one
        return (f"{path} byte {offset:,}" if one and other else path), before, after, level

    def _moved_breakpoint(self, ideal: int) -> Gap | None:
        """Return the gap of a breakpoint that, moved in front of the change, would let nearly everything be read; None where it
        would not.
        """
        lengths = self._lengths
        if lengths.similar - ideal > _CLOSED_SHARE * (lengths.similar - lengths.readable):
            return None
        n = self._owner.n_shared
        text = f"the breakpoint stands behind block {n}, which changes"
        return Gap("program_use", "breakpoint_place", 0, self._path(n - 1), text)

    # The program's use of the cache

    def _use(self, ideal: int) -> Gap | None:
        """Name the reason why the common prefix was not readable; None where its entry was only written behind a change."""
        if not self._owner.sent.shares_cache_with(self._sent):
            return self._other_cache(self._owner)
        setting = self._changed_setting()
        if setting is not None:
            return setting
        return self._use_of_marks(ideal) if self._trial.is_marked else self._use_of_prefix()

    def _changed_setting(self) -> Gap | None:
        """Return the gap of a setting that keys the common prefix and differs, without its size; None where none does."""
        owner, sent = self._owner, self._sent
        level = next((i for i in range(sent.level(owner.n_shared - 1) + 1) if not self._is_same_key(owner, i)), None)
        if level is None:
            return None
        changed = [one for one in changed_settings(owner.sent.settings, sent.settings) if one[0] != "model"]
        text = self._trial.remarks.get("setting") or _settings_text(changed) or f"{LEVELS[level]}: {_SETTING}"
        whose: Whose = "program_use" if owner.is_own else "nobody"
        path, was, now = changed[0] if changed else ("parameters", None, None)
        sides = ["" if value is None else _short(value) for value in (was, now)]
        kind = setting_kind(path if changed else text.partition(" ")[0])
        return Gap(whose, "params_changed", 0, path, text, kind=kind, was=sides[0], now=sides[1])

    def _is_same_key(self, one: _Earlier, level: int) -> bool:
        return one.sent.prompt.namespaces[level] == self._sent.prompt.namespaces[level]

    def _use_of_prefix(self) -> Gap | None:
        """Name the reason why a cache that keeps every prompt did not hold the common prefix."""
        trial, row = self._trial, self._sent.row
        holders = [
            one
            for one in trial.earlier
            if one.sent.shares_cache_with(self._sent)
            and trial.rounding.down(trial.common_tokens(one)) > self._lengths.readable
        ]
        late = self._late(holders, row.default_ttl_seconds) if holders else None
        return late or Gap("nobody", "rules", 0, evidence="the cache keeps whole units")

    def _use_of_marks(self, ideal: int) -> Gap | None:
        """Name the reason why no breakpoint read the common prefix."""
        sent, ruler, readable = self._sent, self._trial.ruler, self._lengths.readable
        written = [
            (mark, one)
            for one in self._trial.earlier
            if one.sent.shares_cache_with(sent)
            for mark in one.sent.written()
            if mark.segment < one.n_shared
            and self._is_same_key(one, sent.level(mark.segment))
            and readable < ruler.at(mark.segment + 1) >= sent.row.min_tokens
        ]
        if not written:
            return self._unwritten()
        begun = [mark for mark, one in written if one.sent.began_at is not None and one.sent.began_at <= sent.call.at]
        mark = max((mark for mark, _ in written), key=lambda mark: mark.segment)
        there = max(begun, key=lambda mark: mark.segment, default=mark)
        if 2 * (ruler.at(there.segment + 1) - readable) >= ideal - readable:
            mark = there
        holders = [one for one in self._trial.earlier if one.n_shared > mark.segment]
        late = self._late(holders, mark.ttl_seconds)
        return late or self._unreached(mark)

    def _late(self, holders: Sequence[_Earlier], ttl_seconds: int) -> Gap | None:
        """Name the reason why a prefix of earlier calls was not cached yet, or no more; None where it was."""
        at, row = self._sent.call.at, self._sent.row
        basis: Basis
        begun = [one for one in holders if one.sent.began_at is not None and one.sent.began_at <= at]
        if not begun:
            coming = min((one for one in holders if one.sent.began_at is not None), key=_began, default=None)
            if coming is None:
                first = holders[0].sent.call
                return Gap(
                    "program_use",
                    "aborted",
                    0,
                    evidence=f"{first.id!r} ended before its response began",
                    basis="assumed",
                )
            early, call = _began(coming) - at, coming.sent.call
            text = f"started {early:.1f} s before the response of {call.id!r} began"
            basis = "assumed" if call.first_byte_at is None else "recorded"
            return Gap("program_use", "cold_fan_out", 0, evidence=text, basis=basis)
        used = max(one.sent.call.at for one in begun)
        gap = at - used
        if gap < ttl_seconds:
            return None
        seconds = f"{gap:.1f}" if int(gap) == ttl_seconds else f"{int(gap)}"
        longest = max(row.ttls_seconds)
        basis = "assumed" if any(one.sent.call.at > used for one in holders) else "recorded"
        if gap >= longest:
            text = f"gap {seconds} s > {longest} s, the longest lifetime sold"
            return Gap("nobody", "cold_start", 0, "pause", text, basis)
        return Gap("program_use", "ttl_expired", 0, "pause", f"gap {seconds} s > {ttl_seconds} s", basis)

    def _unreached(self, mark: Breakpoint) -> Gap:
        """Name the reason why no breakpoint of this call finds the entry at `mark`."""
        prompt = self._sent.prompt
        behind = [one for one in prompt.breakpoints if one.segment >= mark.segment]
        if not behind:
            cause: Cause = "breakpoint_place" if prompt.breakpoints else "no_breakpoint"
            text = f"no breakpoint at or behind block {mark.segment}, up to which the call before was cached"
            return Gap("program_use", cause, 0, self._path(mark.segment), text)
        distance, lookback = min(
            (prompt.positions[one.segment] - prompt.positions[mark.segment], one.lookback) for one in behind
        )
        if distance < lookback:
            return Gap("nobody", "rules", 0, evidence="the rules of the cache let it be read by nothing here")
        text = f"{distance} positions behind the last breakpoint, a lookup visits {lookback}"
        return Gap("program_use", "out_of_reach", 0, self._path(mark.segment), text)

    def _unwritten(self) -> Gap | None:
        """Name the reason why no earlier call wrote the common prefix."""
        owner = self._owner
        marks = [*owner.sent.written()]
        if not marks:
            return Gap(
                "program_use",
                "no_breakpoint",
                0,
                self._path(owner.n_shared - 1),
                "no block is marked, so nothing is cached",
            )
        last = marks[-1].segment
        if last >= owner.n_shared:
            if self._change() is not None:
                return None
            kind, change = _removed_reminder(owner.sent, self._sent)
            is_shorter = owner.n_shared == self._sent.prompt.n
            block = "where this prompt has ended" if is_shorter else "which is another one in this call"
            text = "; ".join(filter(None, (change, f"the breakpoint stood behind block {owner.n_shared}, {block}")))
            return Gap("program_use", "breakpoint_place", 0, self._path(last), text, kind=kind)
        text = f"the last breakpoint stays at block {last}, and the prompt grows behind it"
        return Gap("program_use", "breakpoint_place", 0, self._path(owner.n_shared - 1), text)

    def _path(self, segment: int) -> str:
        layout = self._sent.layout
        if layout is None or not 0 <= segment < layout.n:
            return ""
        return path_of(layout.columns, segment)

    # The provider

    def _provider(self, tokens: int) -> Gap:
        """Attribute tokens that the cache should have held and that were not read."""
        sent, left, read = self._sent, self._trial.conversation.left, self._lengths.read or 0
        setting = self._trial.remarks.get("setting", "")
        if setting.startswith(REROUTED):
            return Gap("provider", "other_server", tokens, "", setting, "recorded", "upstream")
        if setting.startswith(OTHER_PROJECT):
            return Gap("program_use", "account_changed", tokens, "parameters", setting)
        if not self._trial.is_marked and read:
            ago = next((ago for ago, tokens in enumerate(reversed(left), 1) if tokens == read), None)
            if ago:
                text = f"read {read:,} tokens, exactly what the call {ago} calls before had left"
                return Gap("provider", "other_server", tokens, "", text, "documented")
            if read <= self._trial.conversation.first_tokens:
                text = f"read {read:,} tokens, no more than the first call sent"
                return Gap("provider", "other_server", tokens, "", text, "documented")
        changed = self._since_last()
        if changed is not None:
            return replace(changed, tokens=tokens)
        gap = int(sent.call.at - self._owner.sent.call.at)
        marks = [mark.ttl_seconds for mark in self._owner.sent.written()] if self._trial.is_marked else []
        ttl = max(marks, default=sent.row.default_ttl_seconds)
        return Gap("unexplained", "unknown", tokens, "", f"prefix intact, gap {gap} s ≤ {ttl} s", "")

    def _since_last(self) -> Gap | None:
        """Find the change against the last call of the conversation, behind which a provider read less than an earlier prompt had
        left; None where nothing changed.
        """
        last = next((one for one in self._trial.earlier if one.is_own), None)
        if last is None or last.n_shared >= min(last.sent.prompt.n, self._sent.prompt.n):
            return None
        is_back = last is not self._owner and last.n_shared < self._owner.n_shared
        if self._trial.is_marked and not is_back:  # an entry in front of a change is none the worse for it
            return None
        place, before, after, level = self._difference(last.sent, last.n_shared)
        changes = _changes(last.sent, self._sent)
        kind, text = (changes[0].kind, changes[0].text) if changes else ("", "")
        text = ", ".join(filter(None, (text, _CHANGED_BACK if is_back else "")))
        return Gap("program_bytes", _CHANGED[level], 0, place, text, "associated", kind, before, after)


def _removed_reminder(was: Sent, now: Sent) -> tuple[str, str]:
    """Kind and text of a change that took words out of the newest message of a call; empty for another one, as where another
    question was asked from the same place.
    """
    first = next(iter(_changes(was, now) or ()), None)
    return (first.kind, first.text) if first and first.kind == "reminder_removed" else ("", "")


def _changes(was: Sent, now: Sent) -> list[NamedChange] | None:
    """Return the changes between two calls with their kinds; None where they cannot be named: a body is not kept, or is of no
    form that is known, or the two are of two endpoints.
    """
    from contextkit.ledger.changes.kinds import named_changes  # most calls changed nothing
    from contextkit.ledger.parsed_call import parse_call

    if not was.raw or not now.raw:
        return None
    try:
        one = parse_call(replace(was.call, prompt=Bodies(was.raw)))
        other = parse_call(replace(now.call, prompt=Bodies(now.raw)), one)
        return named_changes(one, other) if one and other and one.endpoint == other.endpoint else None
    except (UnreadableRequest, *MISFITS):
        return None


_SERVER_EDITS = b'"context_management"'
"""Field of a request that lets the provider edit the history."""
_SERVER_EDIT = "the provider edits the history that it is sent (`context_management`)"
_CHANGED_BACK = "changed back: an older call had it, and the cache did not"
_CHANGED: tuple[Cause, Cause, Cause] = ("tools_changed", "system_changed", "messages_changed")
_MESSAGES = 2


_SETTING = "a request setting outside the prompt's text"
_MOST_SETTINGS = 3
"""Settings that are told."""
_SHORT = 40


def _settings_text(changed: Sequence[tuple[str, Json, Json]]) -> str:
    """List the request settings that differ: `effort "low" → "high"`."""
    return ", ".join(f"{path} {_short(was)} → {_short(now)}" for path, was, now in changed[:_MOST_SETTINGS])


def _short(value: Json) -> str:
    text = redact(canonical(value)).decode()  # a secret that is cut is not known for one
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _began(one: _Earlier) -> float:
    return one.sent.began_at or 0.0


class _Lengths(NamedTuple):
    """Lengths of one prompt, in tokens."""

    whole: int
    """Whole blocks of the common prefix."""
    shared: int
    readable: int
    similar: int
    read: int | None
