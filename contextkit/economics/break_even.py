"""Should this rewrite happen now? Now, in the next cold window, or never.

What it costs, and the turn at which it has paid.

Takes a rewrite, how the session goes, a model's row and its price, gives advice in dollars. It weighs the bill only:
what a summary forgets is not in it, unless the rewrite carries a penalty. Knows nothing of logs; writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from contextkit.economics.bill import Price
from contextkit.economics.course import Course
from contextkit.economics.keep_alive import MARGIN_SECONDS
from contextkit.economics.rewrite import Bills, Rewrite
from contextkit.economics.rhythm import Outlook, Rhythm
from contextkit.errors import UsageError
from contextkit.models import Model

Verdict = Literal["now", "wait", "never"]
"""Rewrite before the next call; wait for the cold window, or until the context has grown; leave it until the window is
full."""
OUTPUT_RESERVE = 16_384
"""Tokens of the window kept free for a reply where the caller names no limit."""
SELDOM = 4.0
"""A size that takes so many times the expected rest of the session to reach is taken never to be reached."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do before the next call, and the money behind it."""

    verdict: Verdict
    """`now`, `wait` (for the cold window, or for more to remove) or `never`."""
    reason: str
    """The same in one sentence."""
    cost_usd: float
    """What the rewrite adds to the bill at once: its summary and its writes, less the next call as it would have been.
    """
    carry_usd: float
    """What the removed tokens cost at each later call, on average over warm and cold ones."""
    pays_after_turns: float | None
    """Calls after the next one until the carry has paid the cost; None where it never does."""
    saved_usd: float | None
    """What rewriting now saves against the best course that waits; negative where waiting is cheaper; None where the
    window is full."""
    warm_tokens: float | None
    """Context from which on it pays with the cache alive; None where it does not below the limit."""
    cold_tokens: float | None
    """Context from which on it pays where the next call finds the cache dead."""
    idle_tokens: float | None
    """Context from which on it pays at `idle_seconds`, with nobody knowing whether a call will come."""
    idle_seconds: float
    """When to make it, if nothing was sent for so long: shortly before the lapse where a summary reads the prefix, else
    after it."""
    remaining_turns: float
    """Calls expected after the next one."""


@dataclass(frozen=True, slots=True)
class SleepTime:
    """When an idle session is worth rewriting."""

    after_seconds: float | None
    """Rewrite once nothing was sent for so long; None where idling does not make it worth while."""
    saved_usd: float
    """What that saves against waiting for the next call, on average over sessions that go on and sessions that are
    over."""
    reason: str
    """The same in one sentence."""


def advise(
    rewrite: Rewrite,
    rhythm: Rhythm,
    row: Model,
    price: Price,
    *,
    ttl_seconds: int | None = None,
    limit_tokens: int | None = None,
    is_cold: bool = False,
) -> Advice:
    """Whether to make `rewrite` before the next call of a session that goes like `rhythm`.

    `is_cold`: so long was nothing sent that the next call misses anyway. `limit_tokens` is the largest prompt that may
    be sent; the model's window less `OUTPUT_RESERVE` unless given. Raises `UsageError` where the model has no price or
    the rewritten prompt does not fit.

    >>> from contextkit.models import model_named
    >>> from contextkit.prices import cost_usd
    >>> opus = lambda usage: cost_usd("anthropic", "claude-opus-4-5", usage)
    >>> sizes = (60_000, 120_000)
    >>> found = [advise(Rewrite(size, 16_000, 24_000, 3_000), Rhythm(), model_named("claude-opus-4-5"), opus) for size in sizes]
    >>> [(one.verdict, round(one.cost_usd, 2), round(one.pays_after_turns)) for one in found]
    [('wait', 0.23, 14), ('now', 0.23, 4)]
    """
    ttl = row.default_ttl_seconds if ttl_seconds is None else ttl_seconds
    return judge(
        rewrite,
        rhythm.outlook(ttl, MARGIN_SECONDS),
        Bills(row, price, ttl),
        _limit(rewrite, row, limit_tokens),
        is_cold=is_cold,
    )


def judge(rewrite: Rewrite, outlook: Outlook, bills: Bills, limit_tokens: int, *, is_cold: bool = False) -> Advice:
    """The same for whoever has an outlook of their own."""
    course = Course(rewrite, outlook, bills, limit_tokens)
    now, wait = course.before_call(rewrite.context_tokens, is_cold=is_cold)
    cost, carry = _cost(rewrite, outlook, bills, is_cold=is_cold), _carry(rewrite, outlook, bills)
    warm, cold, idle = (course.pays_from(moment) for moment in ("warm", "cold", "idle"))
    verdict = _verdict(course, now, wait, [size for size in (warm, cold, idle) if size is not None])
    seconds = outlook.idle_seconds if rewrite.has_call else float(bills.ttl_seconds)
    pays = max(cost, 0.0) / carry if carry > 0 else None
    saved = None if course.is_full(rewrite.context_tokens) else wait - now
    found = Advice(verdict, "", cost, carry, pays, saved, warm, cold, idle, seconds, outlook.remaining_turns)
    return _with_reason(found, rewrite, is_cold=is_cold)


def sleep_time(
    rewrite: Rewrite,
    rhythm: Rhythm,
    row: Model,
    price: Price,
    *,
    ttl_seconds: int | None = None,
    limit_tokens: int | None = None,
) -> SleepTime:
    """When to make `rewrite` while nothing is sent, for a hook that wakes after so many idle seconds.

    Otherwise as `advise`.

    A summary is made shortly before the lapse, when it still reads the whole prefix and the next call will probably
    find nothing; what needs no summary is made after it, when nothing is left to lose.

    >>> from contextkit.models import model_named
    >>> from contextkit.prices import cost_usd
    >>> opus = lambda usage: cost_usd("anthropic", "claude-opus-4-5", usage)
    >>> [sleep_time(Rewrite(90_000, 16_000, 24_000, n), Rhythm(), model_named("claude-opus-4-5"), opus).after_seconds for n in (3_000, 0)]
    [270.0, 300.0]
    """
    ttl = row.default_ttl_seconds if ttl_seconds is None else ttl_seconds
    outlook, bills = rhythm.outlook(ttl, MARGIN_SECONDS), Bills(row, price, ttl)
    course = Course(rewrite, outlook, bills, _limit(rewrite, row, limit_tokens))
    size = rewrite.context_tokens
    now, wait = course.while_idle(size) if rewrite.has_call else course.before_call(size, is_cold=True)
    seconds = outlook.idle_seconds if rewrite.has_call else float(ttl)
    if rewrite.removed_tokens <= 0 or not wait > now:
        return SleepTime(
            None, 0.0, f"{_tokens(size)} are not worth rewriting while nobody waits: the next call decides"
        )
    saved = wait - now
    what = (
        "the summary still reads the prefix, and the next call will probably miss"
        if rewrite.has_call
        else "the next call misses anyway"
    )
    return SleepTime(seconds, saved, f"after {seconds:.0f} idle seconds: {what}; saves {_usd(saved)} on average")


def _limit(rewrite: Rewrite, row: Model, limit_tokens: int | None) -> int:
    limit = row.window_tokens - OUTPUT_RESERVE if limit_tokens is None else limit_tokens
    if rewrite.after_tokens >= limit:
        raise UsageError(
            f"a prompt of {rewrite.after_tokens:,} tokens after the rewrite does not fit {limit:,}: keep a shorter tail"
        )
    return limit


def _cost(rewrite: Rewrite, outlook: Outlook, bills: Bills, *, is_cold: bool) -> float:
    new = round(outlook.growth_tokens)
    return bills.rewritten(rewrite, new, is_cold=is_cold) - bills.stay(rewrite.context_tokens, new, is_cold=is_cold)


def _carry(rewrite: Rewrite, outlook: Outlook, bills: Bills) -> float:
    new = round(outlook.growth_tokens)
    warm, cold = (
        bills.stay(rewrite.context_tokens, new, is_cold=is_cold)
        - bills.stay(rewrite.after_tokens, new, is_cold=is_cold)
        for is_cold in (False, True)
    )
    return (1 - outlook.cold) * warm + outlook.cold * cold


def _verdict(course: Course, now: float, wait: float, sizes: list[float]) -> Verdict:
    context, outlook = course.rewrite.context_tokens, course.outlook
    if course.is_full(context) or (course.rewrite.removed_tokens > 0 and now <= wait):
        return "now"
    reached = context + SELDOM * outlook.remaining_turns * outlook.growth_tokens
    return "wait" if any(size <= reached for size in sizes) else "never"


def _with_reason(found: Advice, rewrite: Rewrite, *, is_cold: bool) -> Advice:
    return replace(found, reason=_REASONS[found.verdict](found, rewrite, is_cold))


def _now(found: Advice, rewrite: Rewrite, is_cold: bool) -> str:
    if found.saved_usd is None:
        return f"the window is full: {_tokens(rewrite.context_tokens)} and a turn more do not fit"
    when = "the next call misses anyway, " if is_cold else ""
    return f"{when}{_bargain(found, rewrite)}; waiting costs {_usd(found.saved_usd)} more"


def _wait(found: Advice, rewrite: Rewrite, is_cold: bool) -> str:
    moments = (
        (found.idle_tokens, f"after {found.idle_seconds:.0f} idle seconds"),
        (found.cold_tokens, "in a cold window"),
        (found.warm_tokens, "with the cache alive"),
    )
    pays = ", ".join(f"{when} from {_tokens(size)}" for size, when in moments if size is not None)
    return f"{_bargain(found, rewrite)}, but it is cheaper later: it pays {pays}"


def _never(found: Advice, rewrite: Rewrite, is_cold: bool) -> str:
    return f"{_bargain(found, rewrite)}; about {found.remaining_turns:.0f} are expected"


_REASONS = {"now": _now, "wait": _wait, "never": _never}


def _bargain(found: Advice, rewrite: Rewrite) -> str:
    if found.pays_after_turns is None:
        return "it removes nothing"
    carry = _usd(found.carry_usd)
    if found.cost_usd <= 0:
        return f"it saves {_usd(-found.cost_usd)} at once and {carry} a turn from then on"
    return (
        f"it costs {_usd(found.cost_usd)}, and {carry} less a turn pays that after {found.pays_after_turns:.1f} turns"
    )


def _usd(amount: float) -> str:
    return f"${amount:.2f}" if abs(amount) >= 1 else f"${amount:.4f}"


def _tokens(amount: float) -> str:
    return f"{amount:,.0f} tokens"
