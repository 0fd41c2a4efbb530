"""When a conversation is compacted, where it may be cut, and what becomes of a reply that is no summary.

Takes a policy, sizes in tokens and a log, gives decisions; `Context` opens the epochs. A decision is not in the log:
what it leads to is an epoch entry, which is.

Hysteresis: after a compaction the next one is due where the prompt exceeds `at_tokens` and has grown by a quarter since,
so a prompt that stays large for another reason (a long system prompt, many pins) is not rewritten at every call. Without
`at_tokens` the threshold is where a rewrite pays (`economics/break_even.py`), which is at two to four times what a
compaction leaves. A full window comes before both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, parse
from contextkit.economics.break_even import OUTPUT_RESERVE, pays_from
from contextkit.economics.residency import Prices
from contextkit.economics.rewrite import Bills, Rewrite
from contextkit.errors import InvalidCall, UnknownModel, UnusableSummary, UsageError
from contextkit.log.entry import Entry, Kind
from contextkit.log.log import Log, Turns
from contextkit.memory.compaction import Compaction
from contextkit.models import Model
from contextkit.prices import cost_usd
from contextkit.prompt.planner import PlanningState
from contextkit.prompt.tokens import counter_for
from contextkit.providers.adoption import check_provider
from contextkit.providers.parameters import output_tokens
from contextkit.providers.provider import Provider

GROWTH = 0.25
"""By how much a prompt grows between two compactions, at least."""
LEAST_REMOVED = 0.2
"""Share of the prompt that the first compaction removes, at least."""
SUMMARY_TOKENS = 2_000
"""What a summary is taken to hold before one was made."""
OPENING_TOKENS = 1_500
"""What an opening says beside the summary: goal, pins, plan, references; an assumption."""
WEIGHED_EVERY = 8
"""Replies after which it is weighed anew whether a compaction pays: the habits of a session change slowly."""
LEAST_RATIO = 1.5
"""How many times what it leaves a prompt must hold before it is weighed whether a compaction pays."""
RETRY_GROWTH = 0.1
"""By how much a prompt grows before a summary is asked for again that could not be had."""
INSTRUCTION_TOKENS = 100
"""What asking for a summary adds to the prompt."""
MOST_REQUESTS = 3
"""Requests for one summary, until it is given up."""
NO_PRICE_RATIO = 11.5
"""What writing a token costs more than reading it, in reads, where a model has no price: 1.25 and 0.1 of its input."""

NO_CALLS = "This call was not made: no tool is called while the summary is written."
"""Answers a call in a reply that should have been a summary."""
RETRIES: Mapping[str, str] = {
    "calls": "Call no tool. Answer with the summary alone, as asked above.",
    "truncated": "That summary was cut at the limit of a reply. Write it again, complete, at half the length.",
    "refused": "Write the summary all the same; leave out what you do not want to repeat, and say that it was left out.",
    "empty": "That reply held no text. Answer with the summary alone, as asked above.",
}
"""Why a reply is no summary → how it is asked for again."""
_REASONS: Mapping[str, str] = {
    "calls": "it calls tools",
    "truncated": "it was cut at the limit of its output: give side.request(max_tokens=…) a higher one",
    "refused": "the model refused",
    "empty": "it holds no text",
    "overflow": "the window was full before it was complete: compact(text) with a summary of your own, or leave large "
    "results out with compact_results(before=…)",
    "paused": "the model has not finished: send side.request() once more",
}


@dataclass(slots=True)
class SummaryTask:
    """A branch that writes a summary for another conversation."""

    keep_from: int | None
    """Sequence from which on that conversation is kept word for word."""
    n_entries: int
    """Entries of that conversation that the branch shares; what is said there later is kept."""
    epoch: int
    """Its epoch then."""
    n_tokens: int
    """Size of its prompt then; 0 where the caller made the branch, and says itself what is kept."""
    n_requests: int = 1
    """How often the summary was asked for."""

    def retained_from(self, log: Sequence[Entry], turns: Turns) -> int | None:
        """First entry of that conversation that is kept; None for none, and where the caller says it.

        Raises `UsageError` where another epoch has begun there.
        """
        if not self.n_tokens:
            return None
        if self.epoch != turns.epoch:
            raise UsageError(
                "this branch was made before another epoch began here, and summarises what is no longer in the prompt: "
                "context.compacting() makes another where one is due"
            )
        return self.n_entries if self.keep_from is None and len(log) > self.n_entries else self.keep_from


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens of the next prompt."""

    prompt: int
    """All of it, as predicted."""
    head: int
    """Tools and system."""
    new: int
    """Behind the last epoch's opening and what it kept; all messages where there was no epoch."""
    behind: Callable[[int], int]
    """Sequence of an entry → from there to the end."""
    output: int
    """Longest reply asked for; 0 where the request does not say."""


class CompactionState:
    """What the log says of the last epoch, and what was weighed since."""

    reads: frozenset[Kind] = frozenset({"assistant", "epoch"})

    def __init__(self, policy: Compaction | None) -> None:
        if not isinstance(policy, Compaction | None):
            raise UsageError(f"compact is a contextkit.Compaction, not {type(policy).__name__}")
        if policy is not None and policy.model is not None:
            check_provider(policy.model)
        self.policy = policy
        self.n_replies = 0
        """Replies since the last epoch that rewrote messages."""
        self.rewritten = 0
        """Tokens that this epoch made the next call write anew, as its entry says; 0 before the first."""
        self.removed = 0
        """Tokens it took out of the prompt; 0 where its entry does not say."""
        self.n_epochs = 0
        """Epochs that rewrote messages."""
        self._pays_from: tuple[float, float] | None = None
        """Sizes from which on a compaction pays: with the cache alive, with the cache cold."""
        self._weighed_at = 0
        """Replies since the last epoch when that was worked out."""
        self._given_up_at = 0
        """Size of the prompt when a summary was given up; 0 where none was."""

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        if entry.kind == "assistant":
            self.n_replies += 1
            return
        body = parse(entry.body)
        if body["reason"] not in ("compaction", "results"):
            return
        self.n_replies, self.n_epochs = 0, self.n_epochs + 1
        self.removed = body.get("removes_tokens", 0)
        self.rewritten = max(body["rewrites_tokens"] - self.removed, 0)
        self._pays_from, self._given_up_at = None, 0

    def due(self) -> None:
        """Nothing is written behind an entry."""

    def give_up(self, prompt_tokens: int) -> None:
        """A summary could not be had: no other is asked for until the prompt has grown by a tenth."""
        self._given_up_at = prompt_tokens

    def pay_back_replies(self, prices: Prices | None) -> float:
        """Replies after which the last epoch has paid for what it rewrote; 0 where that is unknown.

        >>> state = CompactionState(None)
        >>> state.rewritten, state.removed = 20_000, 10_000
        >>> state.pay_back_replies(None)
        23.0
        """
        if not self.removed or not self.rewritten:
            return 0.0
        ratio = NO_PRICE_RATIO
        if prices is not None and prices.read:
            ratio = (prices.written - prices.read) / prices.read
        return ratio * self.rewritten / self.removed

    def too_soon(self, prices: Prices | None) -> str | None:
        """Why another epoch of `compact_results` comes too soon, None where it does not."""
        pay_back = self.pay_back_replies(prices)
        if self.n_replies >= pay_back:
            return None
        return (
            f"compact_results opens an epoch {self.n_replies} replies after the last one, which pays for itself after "
            f"{pay_back:.0f}: it removed {self.removed:,} tokens, and made {self.rewritten:,} be written anew. Compact more "
            "results at a time, less often; Context(…, compact=Compaction()) chooses when"
        )

    def client_for(self, client: Any) -> Any:
        """The client that a request for a summary is sent by."""
        return client if self.policy is None or self.policy.client is None else self.policy.client

    def check(self, model: Model, output: int) -> None:
        """Raises `UsageError` where the policy does not fit the model's window."""
        if self.policy is None or self.policy.at_tokens is None:
            return
        if self.policy.at_tokens > model.window_tokens - output:
            raise UsageError(
                f"Compaction(at_tokens={self.policy.at_tokens:,}): {model.name} has a window of {model.window_tokens:,} tokens, "
                f"of which a reply may take {output:,}; leave at_tokens out, or give a smaller one"
            )

    def for_agent(self, provider: Provider) -> Compaction | None:
        """The policy of a sub-agent of this provider: the same, less an `at_tokens` beyond its model's window."""
        policy, model = self.policy, provider.model
        if policy is None or policy.at_tokens is None:
            return policy
        fits = policy.at_tokens <= model.window_tokens - output_tokens(provider.params)
        return policy if fits else replace(policy, at_tokens=None)

    def cut(
        self, log: Log, turns: Turns, sizes: Sizes, model: Model, planning: PlanningState, ttl_seconds: int, now: float
    ) -> Cut | None:
        """Where to cut before the next request; None where no compaction is due."""
        policy = self.policy
        if policy is None or turns.open or not turns.ordered:
            return None
        limit = model.window_tokens - max(sizes.output, min(OUTPUT_RESERVE, model.window_tokens // 4))
        is_forced = sizes.prompt > limit
        if not is_forced and not self._may_be_due(policy, sizes):
            return None
        is_too_large = sizes.prompt + INSTRUCTION_TOKENS + sizes.output > model.window_tokens
        cut = cut_at(log, turns, policy.retained_tokens, sizes.behind, without_last_reply=is_too_large)
        if cut is None:
            return None
        message_tokens = sizes.prompt - sizes.head - cut.retained_tokens
        expected = sizes.head + cut.retained_tokens + min(SUMMARY_TOKENS + OPENING_TOKENS, message_tokens // 4)
        if is_forced:
            return cut if sizes.prompt > expected else None
        if sizes.prompt - expected < LEAST_REMOVED * sizes.prompt:
            return None
        if policy.at_tokens is not None or self._pays(sizes, expected, limit, model, planning, ttl_seconds, now):
            return cut
        return None

    def _may_be_due(self, policy: Compaction, sizes: Sizes) -> bool:
        """Return whether the prompt is large enough, and has grown since the last epoch, and since a summary was
        given up.
        """
        if sizes.prompt < (1 + RETRY_GROWTH) * self._given_up_at:
            return False
        if self.n_epochs and sizes.new < GROWTH * (sizes.prompt - sizes.new):
            return False
        return policy.at_tokens is None or sizes.prompt > policy.at_tokens

    def _pays(
        self,
        sizes: Sizes,
        expected: int,
        limit: int,
        model: Model,
        planning: PlanningState,
        ttl_seconds: int,
        now: float,
    ) -> bool:
        """Return whether a compaction pays at this size, as `economics` has it; False where the model has no price."""
        if sizes.prompt < LEAST_RATIO * expected or planning.price(Usage(1, 0, 0, 0, 0)) is None:
            return False
        is_cold = bool(planning.cached.breakpoints) and now - planning.cached.at > ttl_seconds
        if self._pays_from is None or self.n_replies >= self._weighed_at + WEIGHED_EVERY:
            other = None if self.policy is None else self.policy.model
            rewrite = Rewrite(
                sizes.prompt,
                sizes.head,
                expected - sizes.head,
                summary_output_tokens=SUMMARY_TOKENS if other is None else 0,
                instruction_tokens=INSTRUCTION_TOKENS if other is None else 0,
                penalty_usd=0.0 if other is None else _summary_usd(other.model, sizes.prompt),
            )
            bills = Bills(model, planning.price, ttl_seconds)
            session = planning.rhythm
            thresholds = pays_from(
                rewrite,
                bills,
                limit,
                growths=session.growths,
                cold_share=session.longer_than(ttl_seconds),
                remaining_turns=session.remaining_turns,
            )
            warm, cold = (float("inf") if size is None else size for size in thresholds)
            self._pays_from, self._weighed_at = (warm, cold), self.n_replies
        return sizes.prompt >= self._pays_from[is_cold]


def _summary_usd(model: Model, n_tokens: int) -> float:
    """What a summary by another model costs, which reads the whole prompt without a cache; 0 without a price."""
    try:
        return cost_usd(model.provider, model.name, Usage(n_tokens, 0, 0, 0, SUMMARY_TOKENS)) or 0.0
    except UnknownModel:
        return 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a compaction cuts, and what the summary is made of."""

    keep_from: int | None
    """First entry that is kept; None for none."""
    retained_tokens: int
    """From there to the end."""
    summarise_to: int | None = None
    """Last entry that the summary is made of, where the whole prompt does not fit the window; None for all of them."""


def cut_at(
    log: Sequence[Entry],
    turns: Turns,
    budget_tokens: int,
    behind: Callable[[int], int],
    *,
    without_last_reply: bool = False,
) -> Cut | None:
    """The cut that keeps as many of the newest turns as `budget_tokens` hold, and what the model has not replied to.

    A cut stands before a turn of the user, or, where that would keep less than half, before a reply; never between a call
    and its result. `without_last_reply`: the
    summary is made of what stands before the last reply, so that reply is kept too. None where nothing can be cut.
    """
    ordered = turns.ordered
    first = 1 if log[ordered[0]].kind == "epoch" else 0
    last = _unanswered(log, turns, first)
    at_reply = turns.n_before_last_assistant
    summarise_to = None
    if without_last_reply:
        if at_reply is None or turns.last_assistant is None or at_reply <= first:
            return None
        last, summarise_to = min(last, at_reply), turns.last_assistant - 1
    best: Cut | None = None
    best_turn: Cut | None = None
    for index in _clean(log, turns, first):
        if index > last:
            continue
        n_tokens = behind(ordered[index])
        if n_tokens > budget_tokens and (best is not None or last == len(ordered)):
            break
        best = Cut(ordered[index], n_tokens, summarise_to)
        if log[ordered[index]].kind == "user":
            best_turn = best
    if best is None:
        return Cut(None, 0, summarise_to) if last == len(ordered) else None
    if best_turn is not None and 2 * best_turn.retained_tokens >= best.retained_tokens:
        return best_turn
    return best


def _unanswered(log: Sequence[Entry], turns: Turns, first: int) -> int:
    """Index in the order from which on everything must be kept: what the model has not replied to, with the calls it
    answers.
    """
    at_reply = turns.n_before_last_assistant
    if not turns.has_pending_user:
        return len(turns.ordered)
    if at_reply is None:
        return first
    is_answered = any(log[sequence].kind == "result" for sequence in turns.ordered[at_reply + 1 :])
    return at_reply if is_answered else at_reply + 1


def _clean(log: Sequence[Entry], turns: Turns, first: int) -> Iterator[int]:
    """Indexes in the order at which an epoch may cut, the last first: all entries before have smaller sequences, all
    behind have larger ones.
    """
    ordered = turns.ordered
    largest, before = -1, list[int]()
    for sequence in ordered:
        before.append(largest)
        largest = max(largest, sequence)
    smallest = len(log)
    for index in range(len(ordered) - 1, first, -1):
        sequence = ordered[index]
        is_clean = before[index] < sequence < smallest and log[sequence].kind in ("user", "assistant")
        smallest = min(smallest, sequence)
        if is_clean and _is_legal(turns, sequence):
            yield index


def _is_legal(turns: Turns, keep_from: int) -> bool:
    try:
        turns.check("epoch", {"keep_from": keep_from})
    except InvalidCall:
        return False
    return True


def problem_of(turns: Turns, text: str) -> str | None:
    """Why the last reply of a branch is no summary: a key of `RETRIES`, `overflow` or `paused`; None where it is one."""
    if turns.last_stop in ("truncated", "refused", "overflow", "paused"):
        return turns.last_stop
    if turns.open:
        return "calls"
    return None if text.strip() else "empty"


def check_summary(problem: str | None) -> None:
    """Raises `UnusableSummary` where a reply is none."""
    if problem is not None:
        raise UnusableSummary(
            f"the reply is no summary: {_REASONS[problem]}. Nothing was compacted. context.summarise_again(side) asks the "
            "same branch once more; context.compact(text) takes a summary of your own"
        )


def removed_tokens(before: int, head: int, opening: Iterable[Json], tail: int, model: Model) -> int:
    """Estimate of what a compaction takes out of the prompt."""
    return max(before - head - tail - _n_tokens(opening, model), 0)


def shortened_tokens(results: Iterable[Entry], replaced: Mapping[str, Any], model: Model) -> int:
    """Estimate of what results that become references take out of the prompt."""
    removed = 0
    for entry in results:
        if str(entry.sequence) in replaced:
            removed += _n_tokens(parse(entry.body)["content"], model)
            removed -= _n_tokens(replaced[str(entry.sequence)]["content"], model)
    return max(removed, 0)


def _n_tokens(parts: Iterable[Json], model: Model) -> int:
    counter = counter_for(model)
    return sum(counter.count(part) for part in parts)
