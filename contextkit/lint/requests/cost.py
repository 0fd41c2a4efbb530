"""The cost of a step: tokens that were cached and are billed again, under the reference cache of the requested model.

Takes two neighbouring calls, replays both through the parser of their wire and the cache of `simulator.reference`;
where both bills are known, they say how large the prompt was and how much of it was lost at most. Only steps with a
finding are replayed. Knows nothing of rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from contextkit import prices
from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.prompt import Breakpoint, Prompt, common
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.errors import ContextKitError, UnknownModel
from contextkit.ledger.parsed_call import ParsedCall, is_one_model
from contextkit.lint.requests.rule import Evidence, Step
from contextkit.models import Model
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.histories import named_in
from contextkit.providers.provider import Parsed
from contextkit.providers.rendered_blocks import memoize_blocks

_SEEDS = 20
"""Earlier calls whose writes are put into the cache: as many positions as a lookup visits."""
_MOST_PARSED = 8
"""Parsed calls that wait for the next one of their conversation."""
_ANY_PREFIX = ("implicit", "billed")
"""Kinds of caches that are no less fine than their step; of the others a block is read whole or not at all."""
_MEMO_BYTES = 32 << 20
"""Blocks kept cut, by their bytes: a conversation says each of them again and again."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one step."""

    tokens: int
    """Tokens readable when the call started that it did not read: lost to what the call changed. At most the size of
    its prompt."""
    idle_tokens: int
    """Tokens that the call before had left, and that it did not read for whatever reason, time included."""
    usage: Usage
    """The bill of the call under the reference cache."""
    sent: ParsedCall
    """The call."""
    is_same: bool
    """Whether what could be read stands there as it did: to the provider nothing changed, however it is spelled and
    marked now."""
    is_billed: bool = False
    """Whether the bills of both calls are known, so that a loss of 0 is what the provider says."""

    def of_step_rule(self, evidence: Evidence, is_counted: bool) -> int | None:
        """Tokens of a finding about the whole step, None where unknown.

        `is_counted` says that a changed block already has the cost of the step. What the reference cache does not model
        (another host, a parameter that only this provider keys on) loses nothing there: without a bill that is unknown.
        """
        if evidence.lost_tokens is not None:
            return min(evidence.lost_tokens, (_whole(self.sent.usage) or self.usage).prompt or 0)  # it is an estimate
        if is_counted:
            return 0
        return self.idle_tokens or (0 if self.is_billed else None)

    def usd(self, tokens: int) -> float | None:
        """What `tokens` of them cost above the price of reading them; None where no price is known."""
        call, row = self.sent.call, self.sent.row
        if not row.provider or not tokens:
            return 0.0 if row.provider else None
        try:
            usage = _whole(self.sent.usage) or self.usage
            bills = usage, _had_been_read(usage, tokens)
            paid, read = (prices.cost_usd(row.provider, row.name, usage, call.at) for usage in bills)
        except UnknownModel:
            return None
        return None if paid is None or read is None else max(0.0, paid - read)


class Costs:
    """Prices steps of a recording.

    What was parsed for one step is kept for the next, what was cut for one call for all.
    """

    def __init__(self) -> None:
        self._parsed_prompts: dict[int, Parsed | None] = {}
        memoize_blocks(_MEMO_BYTES)

    def of(self, step: Step) -> Cost | None:
        """What the step cost, None where wire or model are unknown or a body is not as its endpoint takes it."""
        if named_in(step.after.params) is not None:
            return _by_bills(step)
        before, after = self._parsed(step.before), self._parsed(step.after)
        self._parsed_prompts.pop(step.before.index)
        for index in tuple(self._parsed_prompts)[:-_MOST_PARSED]:
            del self._parsed_prompts[index]
        if before is None or after is None:
            return None
        return _cost(step, before, after)

    def _parsed(self, sent: ParsedCall) -> Parsed | None:
        if sent.index not in self._parsed_prompts:
            self._parsed_prompts[sent.index] = _parse(sent)
        return self._parsed_prompts[sent.index]


def _parse(sent: ParsedCall) -> Parsed | None:
    parser, row = PARSERS.get(sent.endpoint), sent.row
    if parser is None or not row.provider:
        return None
    try:
        return parser({**sent.body, "modelId" if sent.endpoint == "bedrock_converse" else "model": row.name})
    except (ContextKitError, TypeError, ValueError, KeyError, AttributeError, RecursionError):
        return None  # what its endpoint would refuse has no price; the finding says so by having none


def _cost(step: Step, before: Parsed, after: Parsed) -> Cost:
    cache = reference_cache(step.after.row)
    for prompt, sent in (*_seeds(step, before), (before.prompt, step.before)):
        if is_one_model(sent.row, step.after.row):  # another model finds nothing of it
            cache.publish(cache.begin(prompt, sent.call.at), _began(sent))
    at = max(step.after.call.at, step.before.call.at)
    there = min(cache.lookup(before.prompt, at).read_tokens, after.prompt.n_tokens)
    n_read = cache.lookup(after.prompt, at).read_tokens
    read = max(n_read, min(there, _inside_block(step, after.prompt.n_tokens)))
    left = min(_written(step, before.prompt, cache), after.prompt.n_tokens)
    shared = common(before.prompt, after.prompt)
    is_same = step.after.row.cache == "breakpoints" and shared > 0 and 0 < there <= after.prompt.ends_tokens[shared - 1]
    lost = Cost(max(0, there - read), max(0, left - read), cache.quote(after.prompt, at), step.after, is_same)
    return _as_billed(step, lost, after.prompt.n_tokens)


def _written(step: Step, prompt: Prompt, cache: PrefixCache[Prompt]) -> int:
    """Tokens that the call before left readable, for its own model where the later one is another."""
    sent = step.before
    if not is_one_model(sent.row, step.after.row):
        cache = reference_cache(sent.row)
        cache.publish(cache.begin(prompt, sent.call.at), _began(sent))
    return cache.lookup(prompt, _began(sent)).read_tokens


def _inside_block(step: Step, n_tokens: int) -> int:
    """Tokens both prompts begin with where the cache keeps any prefix, also one that ends inside a block; 0 where it
    does not.
    """
    row, first = step.after.row, next((change for change in step.changes if change.is_first), None)
    if row.cache not in _ANY_PREFIX or first is None or not first.offset:
        return 0
    sizes = [len(block.body) for block in step.after.blocks]
    shared = int(n_tokens * (sum(sizes[: first.at]) + first.offset) / sum(sizes))
    return shared - shared % row.granularity_tokens if shared >= row.min_tokens else 0


def _as_billed(step: Step, cost: Cost, n_tokens: int) -> Cost:
    """`cost` in the provider's tokens, and no more than it billed.

    What was lost to anything else is what the bill says.
    """
    was, now = _whole(step.before.usage), _whole(step.after.usage)
    if was is None or now is None or step.before.call.error or not n_tokens:
        return cost
    prompt = now.prompt or 0
    lost = max(0, min(left_tokens(was, step.before.row), prompt) - (now.read or 0))
    return replace(cost, tokens=min(lost, round(cost.tokens * prompt / n_tokens)), idle_tokens=lost, is_billed=True)


def _whole(usage: Usage | None) -> Usage | None:
    """A bill whose parts add up to the prompt.

    Who says nothing of writes counts them among what was not read. None for half a bill.
    """
    if usage is None or usage.fresh is None or usage.read is None:
        return None
    return usage.with_unknown_writes_as_zero()


def _began(sent: ParsedCall) -> float:
    """When what it wrote became readable."""
    call = sent.call
    times = (call.first_byte_at, call.ended_at, call.at)
    return max(call.at, next(at for at in times if at is not None))


def _seeds(step: Step, before: Parsed) -> Iterator[tuple[Prompt, ParsedCall]]:
    """Prompts that stand for earlier calls of the conversation: each is a beginning of `before`, marked where that call
    ended.
    """
    if step.after.row.cache != "breakpoints":
        return
    ends = _message_ends(before)
    for sent in step.earlier[-_SEEDS - 1 : -1]:
        last = _last_mark(sent)
        if 0 <= last < len(step.before.blocks) and sent.blocks[last].body == step.before.blocks[last].body:
            block = sent.blocks[last]
            segment = (
                ends.get(block.message, last) if block.message >= 0 and sent.endpoint != "anthropic_messages" else last
            )
            if 0 <= segment < before.prompt.n:
                mark = Breakpoint(segment, step.after.row.default_ttl_seconds, 1)
                yield replace(before.prompt, breakpoints=(mark,)), sent


def _last_mark(sent: ParsedCall) -> int:
    """Index of the block a call was written up to: its last marked one, or its end where the provider marks."""
    marked = next((i for i in range(len(sent.blocks) - 1, -1, -1) if sent.blocks[i].marker is not None), -1)
    return len(sent.blocks) - 1 if marked < 0 or sent.params.get("cache_control") is not None else marked


def _message_ends(parsed: Parsed) -> dict[int, int]:
    """Index of a message in its array → its last segment."""
    columns, ends, message = parsed.layout.columns, dict[int, int](), -1
    for segment in range(columns.level_ends[0], parsed.prompt.n):
        message += bool(columns.roles[segment])
        ends[message] = segment
    return ends


def _had_been_read(usage: Usage, tokens: int) -> Usage:
    """The same call, had `tokens` been there: they stand right behind what was read, so long writes go first, then
    short ones.
    """
    long = min(tokens, usage.write_1h or 0)
    short = min(tokens - long, usage.write_5m or 0)
    plain = min(tokens - long - short, usage.fresh or 0)
    read = (usage.read or 0) + long + short + plain
    return Usage(
        (usage.fresh or 0) - plain, read, (usage.write_5m or 0) - short, (usage.write_1h or 0) - long, usage.output
    )


# By bills
# -----------------------------------------------------------------------------------------------------------------


def left_tokens(usage: Usage, row: Model) -> int:
    """What a call leaves readable; an implicit cache keeps every prompt that is long enough, in whole steps."""
    prompt = usage.prompt or 0
    if row.cache == "breakpoints":
        return sum(part or 0 for part in (usage.read, usage.write_5m, usage.write_1h))
    return prompt - prompt % row.granularity_tokens if prompt >= row.min_tokens else 0


def lifetime_seconds(usage: Usage, row: Model) -> int:
    """The shortest it may be: what was read was written by somebody else, perhaps for less long than this call asked."""
    is_all_long = bool(usage.write_1h) and not usage.read and not usage.write_5m
    return row.ttls_seconds[-1 if is_all_long else 0]


def _by_bills(step: Step) -> Cost | None:
    """Of a call whose past is kept by the provider: the bill before says what stood there.

    None where that is not known.
    """
    sent, usage, row = step.after, step.before.usage, step.after.row
    if usage is None or usage.prompt is None or not row.provider:
        return None
    left = left_tokens(usage, row) if is_one_model(step.before.row, step.after.row) else 0
    there = left if step.gap_seconds < lifetime_seconds(usage, row) else 0
    billed = sent.usage or Usage(left, 0, 0, 0, 0)
    read = billed.read or 0
    return Cost(max(0, there - read), max(0, left - read), billed, sent, False)
