"""A spending limit: what calls have cost, what calls in flight may cost, and whether one more may be sent.

Each attempt to send a call reserves the most it can cost before it leaves, and its bill replaces the reservation. The
most is: every prompt token at the most expensive input rate, and all the output that the request allows. An attempt that
may have been billed and says nothing (a cut stream, a timeout) keeps its reservation as a charge. So the limit holds
whatever comes back, with any number of calls in flight, up to the tokens by which a prompt was counted too low by more
than a tenth.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from threading import Lock
from typing import Final, Literal, get_args

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage, tier_named
from contextkit.canonical import Json
from contextkit.errors import BudgetExceeded, ContextKitError, UnknownModel, UsageError
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.models import Model, model_named
from contextkit.prices import bills_writes, cost_usd
from contextkit.providers.parameters import is_prewarm, output_tokens, value_at, whole_number
from contextkit.terminal import sanitize

Period = Literal["session", "day"]
CHARGE: Final = "charge"
"""Kind of the remark that keeps what a call was charged, where its bill does not say."""
MARGIN = 1.1
"""Reserved prompt tokens over estimated ones: token counts are estimates (docs/research/validation.md#token-estimates)."""
MIN_OUTPUT = 256
"""Fewest tokens of output that a request is capped to: with fewer a reply is of little use."""
_RECENT = 20
"""Calls whose bills correct the estimate of the next prompt."""
_LARGE_TOKENS = 1_000
"""From this size on a prompt that was counted too low corrects later ones in proportion; below, by the difference."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens (input, cached or not, and output) and dollars."""

    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.tokens - other.tokens, self.usd - other.usd)

    def __mul__(self, times: int) -> Amount:
        return Amount(self.tokens * times, self.usd * times)


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that is about to be sent, as far as its price depends on it."""

    provider: str
    """The id prices are looked up under."""
    model: str
    prompt_tokens: int
    """Estimated tokens of the whole prompt."""
    output_tokens: int
    """The most it may generate."""
    at: float
    """When it is sent, seconds since 1970."""
    ttls_seconds: tuple[int, ...] = ()
    """Lifetimes that its prompt may be written with."""
    service_tier: str = ""
    """As `Usage.service_tier` has it."""
    has_output_limit: bool = True
    """Whether the request says how much it may generate."""
    n_answers: int = 1
    """Answers it asks for, among which the output is divided."""
    least_output: int = 0
    """Fewest tokens of output with which it is of use, all answers together."""
    is_least: bool = False
    """Whether it asks for these, since the budget has no room for more."""
    is_prompt_known: bool = True
    """Whether the prompt was seen: the server may keep a part of it, and its tokens are those of the window then."""
    prompt: object = None
    """What tells its prompt from every other."""

    def times(self, n: int) -> PlannedCall:
        """The call with so many times its answers."""
        n_output, n_answers, least = (one * n for one in (self.output_tokens, self.n_answers, self.least_output))
        return replace(self, output_tokens=n_output, n_answers=n_answers, least_output=least)

    def worst(self, prompt_tokens: int) -> Amount:
        """The most it can cost with a prompt of so many tokens: nothing is read from the cache, all output is used."""
        inputs = [Usage(prompt_tokens, 0, 0, 0, self.output_tokens)]
        inputs += [Usage(0, 0, output=self.output_tokens, writes={ttl: prompt_tokens}) for ttl in self.ttls_seconds]
        costs = [self.cost_usd(replace(usage, service_tier=self.service_tier)) for usage in inputs]
        return Amount(
            prompt_tokens + self.output_tokens, max((cost for cost in costs if cost is not None), default=0.0)
        )

    def cost_usd(self, usage: Usage) -> float | None:
        """Dollars for `usage`; None where the model has no price, or a counter is unknown."""
        try:
            return cost_usd(self.provider, self.model, usage, self.at)
        except UnknownModel:
            if not usage.service_tier:
                return None
        return self.cost_usd(replace(usage, service_tier=""))

    @property
    def has_price(self) -> bool:
        """Return whether dollars can be counted."""
        return self.cost_usd(Usage(0, 0, 0, 0, 0)) is not None

    def bill(self, usage: Usage | None, worst: Amount, prompt_tokens: int) -> tuple[Amount, bool]:
        """What a call was billed, and whether its usage says all of it.

        What it does not say, or cannot be true (a prompt of no tokens), counts as in `worst`.
        """
        if usage is None:
            return worst, False
        counters = usage if self._bills_writes() else usage.with_unknown_writes_as_zero()
        has_input = counters.prompt is not None and not _is_doubtful(counters, ("fresh", "read", "writes"))
        has_input = has_input and (counters.prompt or 0) >= min(1, prompt_tokens)
        has_output = counters.output is not None and not _is_doubtful(counters, ("output",))
        if not has_input:
            is_silent = not has_output or not counters.output  # counters that are all 0 say nothing
            return (worst if is_silent else self._without_output(worst, counters.output or 0)), False
        known = counters if has_output else replace(counters, output=max(self.output_tokens, counters.output or 0))
        tokens = (known.prompt or 0) + (known.output or 0)
        return Amount(tokens, self.cost_usd(known) or 0.0), has_output

    def _without_output(self, worst: Amount, n_generated: int) -> Amount:
        """`worst`, with the output that was generated in place of what was allowed."""
        allowed, generated = (
            self.cost_usd(Usage(0, 0, 0, 0, n, service_tier=self.service_tier)) or 0.0
            for n in (self.output_tokens, n_generated)
        )
        return Amount(worst.tokens - self.output_tokens + n_generated, worst.usd - allowed + generated)

    def _bills_writes(self) -> bool:
        try:
            return bills_writes(self.provider, self.model, self.at)
        except UnknownModel:
            return False


def _is_doubtful(usage: Usage, names: Iterable[str]) -> bool:
    """Return whether one of these counters is negative, or a lower bound only."""
    values = {"fresh": usage.fresh, "read": usage.read, "writes": usage.written, "output": usage.output}
    return any((values[name] or 0) < 0 or usage.quality(name) == "partial" for name in names)  # type: ignore[arg-type]


def planned_call(
    provider: str,
    model: Model,
    prompt: Prompt,
    params: Mapping[str, Json],
    at: float,
    *,
    wire: str = "",
    min_output: int = MIN_OUTPUT,
) -> PlannedCall:
    """The call that sends `prompt` with these parameters, of `wire` or of any.

    Its output is what the parameters allow, times the number of answers asked for; where they do not say, or not in a
    form that can be read, the rest of the model's window. `min_output`: the fewest tokens an answer is of use with.
    """
    n_tokens = prompt.n_tokens
    limit = 0 if is_prewarm(params, wire) else output_tokens(params, wire) or None
    n_output = max(model.window_tokens - n_tokens, 0) if limit is None else limit
    ttls = {mark.ttl_seconds for mark in prompt.breakpoints if mark.is_written} | {model.default_ttl_seconds}
    tier = tier_named(_named_tier(params), params.get("speed"), params.get("inference_geo"))
    n_answers = _n_answers(params)
    least = min(n_output, min_output + _thinking_tokens(params))
    return PlannedCall(
        provider,
        model.name,
        n_tokens,
        n_output * n_answers,
        at,
        tuple(sorted(ttls)),
        tier,
        limit is not None,
        n_answers,
        least * n_answers,
        prompt=(prompt.namespaces, prompt.digests[prompt.n - 1]) if prompt.n else None,
    )


def _named_tier(params: Mapping[str, Json]) -> Json:
    tier = params.get("service_tier", params.get("serviceTier"))
    return tier.get("type") if isinstance(tier, Mapping) else tier


def _thinking_tokens(params: Mapping[str, Json]) -> int:
    """What Claude may think, which `max_tokens` has to exceed."""
    more = params.get("additionalModelRequestFields")
    held = (params, more) if isinstance(more, Mapping) else (params,)
    budgets = [thinking.get("budget_tokens") for one in held if isinstance(thinking := one.get("thinking"), Mapping)]
    return max((whole_number(budget) or 0 for budget in budgets), default=0)


def _n_answers(params: Mapping[str, Json]) -> int:
    outer, inner = ("generationConfig", "generation_config"), ("candidateCount", "candidate_count")
    counts = [value_at(params, path) for path in (("n",), ("best_of",), *product(outer, inner))]
    return max(1, *(whole_number(n) or 1 for n in counts))


class Budget:
    """A limit on what calls may cost, in dollars, tokens or both.

    >>> budget = Budget(usd=2.50, tokens=1_000_000)
    >>> budget.spent, budget
    (Amount(tokens=0, usd=0.0), Budget(usd=2.5, tokens=1000000, per='session'))
    """

    __slots__ = (
        "_claimable",
        "_counted",
        "_errors",
        "_has_capped",
        "_lock",
        "_scopes",
        "_unpriced",
        "per",
        "tokens",
        "usd",
    )

    def __init__(self, *, usd: float | None = None, tokens: int | None = None, per: Period = "session") -> None:
        """`usd`: dollars at list prices; `tokens`: input, cached or not, and output. At least one of them.

        `per="session"`: each conversation, with its branches and sub-agents, may spend the whole limit. `per="day"`:
        everything given this object may spend it together in one day (UTC). Raises `UsageError` for what is no limit.
        """
        for name, value in (("usd", usd), ("tokens", tokens)):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 <= value < math.inf):
                raise UsageError(f"Budget({name}={value!r}): a number from 0")
        if usd is None and tokens is None:
            raise UsageError("a budget without a limit: give usd=…, tokens=…, or both")
        if per not in get_args(Period):
            raise UsageError(f"Budget(per={per!r}): 'session' or 'day'")
        self.usd, self.tokens, self.per = usd, tokens, per
        self._lock = Lock()
        self._scopes: dict[str, _Scope] = {}
        self._errors: deque[tuple[int, int]] = deque(maxlen=_RECENT)
        """(estimated, billed) prompt tokens of the last calls."""
        self._counted: set[tuple[str, str, str, float]] = set()
        """Ledger rows that are counted."""
        self._unpriced: set[tuple[str, str]] = set()
        self._has_capped = False
        self._claimable: dict[object, list[Reservation]] = {}
        """Prompt → open reservations for attempts that their maker does not see."""

    def __repr__(self) -> str:
        return f"Budget(usd={self.usd!r}, tokens={self.tokens!r}, per={self.per!r})"

    @property
    def spent(self) -> Amount:
        """What calls were charged: of all sessions together, or of the last day with calls."""
        return self._sum("spent")

    @property
    def reserved(self) -> Amount:
        """What calls in flight may cost, likewise."""
        return self._sum("reserved")

    def check(self, call: PlannedCall, session: str) -> None:
        """Raise `BudgetExceeded` where the call could exceed the limit; reserves nothing."""
        with self._lock:
            self._worst(call, session)

    def output_room(self, call: PlannedCall, session: str, n_attempts: int = 1) -> int:
        """Tokens of output that `call` may ask for: its own, unless the whole budget is smaller than so many attempts of
        it cost at most; then what is left has room for. Negative where that is none.
        """
        with self._lock:
            worst = call.worst(self._most_prompt_tokens(call.prompt_tokens))
            if self._exceeding(worst * n_attempts) is None:
                return call.output_tokens
            return self._room(call, session, n_attempts)

    def _room(self, call: PlannedCall, session: str, n_attempts: int) -> int:
        """Tokens of output, up to its own, that what is left has room for; negative where that is none."""
        scope = self._scope(call.at, session)
        prompt_tokens = self._most_prompt_tokens(call.prompt_tokens)

        def is_too_much(n_output: int) -> bool:
            worst = replace(call, output_tokens=n_output).worst(prompt_tokens)
            return self._exceeding(scope.spent + scope.reserved + worst * n_attempts) is not None

        return bisect_left(range(call.output_tokens + 1), True, key=is_too_much) - 1

    def _capped(self, call: PlannedCall, session: str, n_attempts: int) -> PlannedCall:
        """The call with as much output as half of what is left has room for, so that others fit beside it, and no less than
        is of use.
        """
        n_output = self._room(call, session, 2 * n_attempts) // call.n_answers * call.n_answers
        is_least = n_output < call.least_output < call.output_tokens
        n_output = max(n_output, call.least_output)
        return call if n_output >= call.output_tokens else replace(call, output_tokens=n_output, is_least=is_least)

    def warn_capped(self, limit: str, capped: int) -> None:
        """Say once that the output of requests is capped."""
        if not self._has_capped:
            self._has_capped = True
            text = (
                f"{self!r} is smaller than what one request could cost, so its output is capped: {limit}, lowered to "
                f"{capped:,} tokens and to what is left from here on; raise the budget, or set max_tokens (Responses: "
                "max_output_tokens) yourself"
            )
            warnings.warn(sanitize(text), stacklevel=5)

    def reserve(
        self, call: PlannedCall, session: str, *, is_sent: bool = False, n_attempts: int = 1, is_capped: bool = False
    ) -> Reservation:
        """Set aside what so many attempts to send the call may cost at most.

        Raises `BudgetExceeded` where that could exceed the limit; `is_sent` says that the call was made already, so
        that it counts whatever the limit is. `is_capped`: its output is lowered to what is left, which the call of the
        reservation says; it is refused where that is less than is of use.
        """
        self._warn_unpriced(call)
        with self._lock:
            call = self._capped(call, session, n_attempts) if is_capped else call
            worst, prompt_tokens, scope = self._worst(call, session, is_checked=not is_sent, n_attempts=n_attempts)
            scope.reserved, scope.n_open = scope.reserved + worst * n_attempts, scope.n_open + 1
            reservation = Reservation(self, scope, call, worst, prompt_tokens, n_attempts)
            if n_attempts > 1 and call.prompt is not None:
                self._claimable.setdefault(call.prompt, []).append(reservation)
        return reservation

    def claim(self, call: PlannedCall) -> Reservation | None:
        """One of the attempts that are set aside for a call with this prompt, where somebody else sees it leave; None
        where there is none.
        """
        with self._lock:
            reservations = () if call.prompt is None else self._claimable.get(call.prompt, ())
            open_ones = [one for one in reservations if one.n_claimed < one.n_attempts]
            if not open_ones:
                return None
            reservation = min(open_ones, key=lambda one: one.n_claimed)  # equal requests in flight have an attempt each
            reservation.n_claimed += 1
            return reservation

    def count(self, key: _Key) -> None:
        """Take a ledger row for counted: what its call was charged is known here."""
        with self._lock:
            self._counted.add(key)

    def restore(self, ledger: Ledger, session: str) -> None:
        """Count what a ledger says was spent: by this session, or by every session on each day.

        A row that is counted already, live or restored, is not counted again.
        """
        charges = {remark.about: remark.text for remark in ledger.remarks if remark.kind == CHARGE}
        for row in ledger.calls:
            key = (row.session, row.lane, row.id, row.at)
            if key not in self._counted and (self.per == "day" or row.session == session):
                amount = _charged(row, charges.get(row.id))
                with self._lock:
                    self._counted.add(key)
                    scope = self._scope(row.at, row.session)
                    scope.spent += amount
                    self._learn(row.predicted.prompt if row.predicted else None, row.usage)

    def _sum(self, name: str) -> Amount:
        with self._lock:
            scopes = list(self._scopes.values())
            if self.per == "day" and scopes:
                scopes = [self._scopes[max(self._scopes)]]
            return sum((getattr(scope, name) for scope in scopes), Amount())

    def _scope(self, at: float, session: str) -> _Scope:
        name = session if self.per == "session" else datetime.fromtimestamp(at, UTC).date().isoformat()
        return self._scopes.setdefault(name, _Scope())

    def _worst(
        self, call: PlannedCall, session: str, *, is_checked: bool = True, n_attempts: int = 1
    ) -> tuple[Amount, int, _Scope]:
        """The most that one attempt may cost, its prompt tokens, and where it is counted."""
        scope = self._scope(call.at, session)
        prompt_tokens = self._most_prompt_tokens(call.prompt_tokens)
        worst = call.worst(prompt_tokens)
        exceeded = self._exceeding(scope.spent + scope.reserved + worst * n_attempts) if is_checked else None
        if exceeded is not None:
            raise self._exceeded(*exceeded, scope, worst, call, n_attempts)
        return worst, prompt_tokens, scope

    def _exceeding(self, total: Amount) -> tuple[str, float] | None:
        """Unit and value of the limit that a total exceeds."""
        limits = ("usd", self.usd, total.usd), ("tokens", self.tokens, total.tokens)
        return next(((unit, limit) for unit, limit, value in limits if limit is not None and value > limit), None)

    def _most_prompt_tokens(self, estimated: int) -> int:
        """The estimate with its margin, raised by as much as prompts of the last calls were counted too low."""
        factor, difference = 1.0, 0
        for guess, billed in self._errors:
            if guess >= _LARGE_TOKENS:
                factor = max(factor, billed / guess)
            else:
                difference = max(difference, billed - guess)
        return math.ceil(estimated * factor * MARGIN) + difference

    def _exceeded(
        self, unit: str, limit: float, scope: _Scope, worst: Amount, call: PlannedCall, n_attempts: int
    ) -> BudgetExceeded:
        would_be = scope.spent + scope.reserved + worst * n_attempts
        amounts = {"spent": scope.spent, "reserved": scope.reserved, "would_be": would_be}
        values = {name: getattr(amount, unit) for name, amount in amounts.items()}
        written = {name: _written(unit, value) for name, value in values.items()}
        most = getattr(worst, unit)
        rest = ", the fewest that are of use" if call.is_least else ""
        if not call.has_output_limit:
            rest += (
                " (the request sets no limit)" if rest else ": the rest of the window, since the request sets no limit"
            )
        known = (
            ""
            if call.is_prompt_known
            else ", the whole window, since a part is kept by the server and was not seen here"
        )
        limiting = "lower" if call.has_output_limit else "set"
        limiting += " max_tokens (Responses: max_output_tokens) of the request"
        times = times_advice = ""
        if n_attempts > 1:
            times = f", {n_attempts} times where the SDK tries again by itself,"
            times_advice = "send it with request.send(client), which counts attempts as they leave, "
        text = (
            f"a call to {call.model} could cost up to {_written(unit, most)} ({call.prompt_tokens:,} tokens of prompt{known}, "
            f"nothing of it read from the cache, and {call.output_tokens:,} of output{rest}){times} and the budget is "
            f"{_written(unit, limit)} per {self.per}: {written['spent']} are spent and {written['reserved']} reserved by calls in "
            f"flight, so that would be up to {written['would_be']}; nothing was sent"
        )
        option = "--budget" if unit == "usd" else "--budget-tokens"
        return BudgetExceeded(
            text,
            unit=unit,
            limit=limit,
            **values,
            in_code=f"raise it (Budget({unit}=…)), {times_advice}{limiting}, or compact the conversation",
            in_shell=f"raise it with {option}, or {limiting}",
        )

    def _warn_unpriced(self, call: PlannedCall) -> None:
        name = (call.provider, call.model)
        if self.usd is None or name in self._unpriced or call.has_price:
            return
        self._unpriced.add(name)
        limit = "its tokens count, its dollars do not" if self.tokens is not None else "its calls are not limited"
        text = f"no price is known for {call.model!r} of provider {call.provider!r}: in a budget of dollars {limit}; register_price(…)"
        warnings.warn(sanitize(text), stacklevel=5)

    def _close(self, reservation: Reservation, charge: Amount, usage: Usage | None) -> None:
        call = reservation.call
        with self._lock:
            scope = reservation.scope
            scope.n_open -= 1
            if call.prompt is not None and reservation in (same := self._claimable.get(call.prompt, [])):
                same.remove(reservation)
                if not same:
                    del self._claimable[call.prompt]
            # no float is left over where nothing is in flight
            set_aside = reservation.worst * reservation.n_attempts
            scope.reserved = scope.reserved - set_aside if scope.n_open else Amount()
            scope.spent += charge
            self._learn(call.prompt_tokens, usage)

    def _learn(self, estimated: int | None, usage: Usage | None) -> None:
        billed = None if usage is None else usage.with_unknown_writes_as_zero().prompt
        if estimated and billed:
            self._errors.append((estimated, billed))


def check_budget(budget: object) -> None:
    """Raises `UsageError` for what is neither a budget nor None."""
    if not isinstance(budget, Budget | None):
        raise UsageError(f"budget is a contextkit.Budget, not {type(budget).__name__}")


_Key = tuple[str, str, str, float]
"""Session, lane, id and time of a ledger row."""


class _Scope:
    """One session, or one day."""

    __slots__ = ("n_open", "reserved", "spent")

    def __init__(self) -> None:
        self.spent, self.reserved, self.n_open = Amount(), Amount(), 0


class Reservation:
    """What one call in flight may cost; closed once, by its bill or by the news that it was not billed."""

    __slots__ = (
        "_budget",
        "_is_open",
        "_prompt_tokens",
        "call",
        "n_answered",
        "n_attempts",
        "n_claimed",
        "n_lost",
        "scope",
        "worst",
    )

    def __init__(
        self, budget: Budget, scope: _Scope, call: PlannedCall, worst: Amount, prompt_tokens: int, n_attempts: int
    ) -> None:
        self._budget, self._is_open, self._prompt_tokens = budget, True, prompt_tokens
        self.scope, self.call = scope, call
        self.worst = worst
        """The most that one attempt may cost."""
        self.n_attempts = n_attempts
        """How often it may be sent, where nobody sees the attempts."""
        self.n_claimed = self.n_lost = self.n_answered = 0
        """Attempts that a watched client has seen leave; those of them of which nothing came back, or a reply."""

    def settle(self, usage: Usage | None) -> tuple[Amount, bool]:
        """Charge one attempt what it was billed, or what it may have been where `usage` does not say, and every other one
        that was lost or answered its most.

        Returns the charge, and whether the bill says all of it; nothing where the reservation is closed.
        """
        charge, is_billed = self.call.bill(usage, self.worst, self._prompt_tokens)
        n_others = self.n_lost + max(self.n_answered - 1, 0)
        charge, is_billed = charge + self.worst * n_others, is_billed and not n_others
        return (charge, is_billed) if self._close(charge, usage) else (Amount(), True)

    def forfeit(self) -> Amount:
        """Charge every attempt its most: what became of them is not known. Returns the charge."""
        charge = self.worst * self.n_attempts
        return charge if self._close(charge, None) else Amount()

    def release(self) -> Amount:
        """Charge nothing but the attempts that are known to be lost. Returns the charge."""
        charge = self.worst * self.n_lost
        return charge if self._close(charge, None) else Amount()

    def _close(self, charge: Amount, usage: Usage | None) -> bool:
        """Close it; return whether it was open."""
        was_open, self._is_open = self._is_open, False
        if was_open:
            self._budget._close(self, charge, usage)
        return was_open


Limit = tuple[Budget, str]
"""A budget, and the session that spends from it."""


class Hold:
    """The reservations of one call in every budget that limits it."""

    __slots__ = ("_lost", "_reservations", "call")

    def __init__(
        self,
        limits: Sequence[Limit],
        call: PlannedCall,
        *,
        is_sent: bool = False,
        n_attempts: int = 1,
        is_capped: bool = False,
    ) -> None:
        """Reserve in all of `limits`, or in none. Raises `BudgetExceeded`. `is_capped`: as much output as there is room
        for, as `call` says then.
        """
        self.call = call
        """The call that is reserved."""
        self._lost = Amount()
        """What earlier attempts to send the call were charged, whose fate is not known."""
        self._reservations: list[Reservation] = []
        try:
            for budget, session in limits:
                self._reservations.append(
                    budget.reserve(self.call, session, is_sent=is_sent, n_attempts=n_attempts, is_capped=is_capped)
                )
                self.call = self._reservations[-1].call
        except BaseException:
            self.release()
            raise

    def follow(self, earlier: Hold) -> None:
        """Charge the attempts of `earlier`, which nobody has heard of, and remember that for the remark of this one."""
        charges = [reservation.forfeit() for reservation in earlier._reservations]
        self._lost = earlier._lost + (charges[-1] if charges else Amount())

    def settle(self, usage: Usage | None) -> str | None:
        """Charge one attempt; returns the text of the remark that keeps the charge, None where the bill says it."""
        outcomes = [reservation.settle(usage) for reservation in self._reservations]
        return self._remark([charge for charge, _ in outcomes], all(is_billed for _, is_billed in outcomes))

    def forfeit(self) -> str | None:
        """Charge every attempt its most; returns the text of the remark that keeps the charge."""
        return self._remark([reservation.forfeit() for reservation in self._reservations], is_billed=False)

    def release(self) -> str | None:
        """The last attempt was not billed; returns the text of the remark that keeps what others were charged."""
        charges = [reservation.release() for reservation in self._reservations]
        return self._remark(charges, is_billed=not any(charge.tokens for charge in charges))

    def _remark(self, charges: list[Amount], is_billed: bool) -> str | None:
        if (is_billed or not charges) and self._lost == Amount():
            return None
        total = self._lost + (charges[-1] if charges else Amount())
        return f"{total.tokens} tokens, {total.usd!r} usd"

    @contextmanager
    def covering(self) -> Iterator[None]:
        """While the block runs, a watched client does not count the call in the same budgets once more."""
        budgets = tuple(reservation._budget for reservation in self._reservations)
        token = _COVERED.set((*_COVERED.get(), *budgets))
        try:
            yield
        finally:
            _COVERED.reset(token)


_COVERED: ContextVar[tuple[Budget, ...]] = ContextVar("contextkit_budgets", default=())


def is_covered(budget: Budget) -> bool:
    """Return whether the call being sent in this thread or task has its reservation in `budget` already."""
    return any(one is budget for one in _COVERED.get())


_NEVER_SENT = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "ConnectTimeoutError",
        "ConnectionRefusedError",
        "EndpointConnectionError",
        "InvalidURL",
        "LocalProtocolError",
        "NoCredentialsError",
        "ParamValidationError",
        "PoolTimeout",
        "ProxyConnectionError",
        "ProxyError",
        "UnsupportedProtocol",
        "gaierror",
    }
)
"""Errors of the HTTP libraries (httpx, botocore) that are raised before a request has left."""


def may_be_billed(error: BaseException) -> bool:
    """Return whether a call that ended with `error` may have been billed all the same.

    A status of 400 or more is not billed (platform.claude.com, "Errors"; developers.openai.com, "Error codes"), nor is
    what never left. A timeout, a broken connection or an interruption may be.
    """
    cause: BaseException | None = error
    names: set[str] = set()
    while cause is not None and len(names) < 100:
        status = _status_of(cause)
        if status is not None:
            return status < 400
        if isinstance(cause, ContextKitError):
            return False
        names.update(kind.__name__ for kind in type(cause).__mro__)
        cause = cause.__cause__
    return not names & _NEVER_SENT


def _status_of(error: BaseException) -> int | None:
    """The HTTP status an SDK's error carries."""
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    nested = metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    statuses = (getattr(error, "status_code", None), getattr(error, "code", None), nested)
    return next((status for status in statuses if type(status) is int and 100 <= status < 600), None)


def _charged(row: ModelCall, remark: str | None) -> Amount:
    """What a ledger row was charged: by its remark, its bill, or, where its response began, at least its prompt."""
    if remark is not None:
        tokens, _, usd = remark.partition(" tokens, ")
        return Amount(int(tokens), float(usd.partition(" ")[0]))
    if row.usage is None and row.first_byte_at is None:
        return Amount()
    expected = (row.predicted.prompt if row.predicted else None) or 0
    row_model = model_named(row.model, row.provider)
    call = PlannedCall(row.provider, row.model, expected, 0, row.at, (row_model.default_ttl_seconds,))
    return call.bill(row.usage, call.worst(expected), expected)[0]


def _written(unit: str, value: float) -> str:
    return f"{value:,.0f} tokens" if unit == "tokens" else f"${value:,.4f}"
