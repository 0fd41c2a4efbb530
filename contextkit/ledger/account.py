"""The live account of a conversation: what each request should be billed, what its reply was billed, and what that says
of the next one.

`Account` predicts each request with the reference cache of its model, records each call in the ledger and warms the
cache with what was really sent; it is rebuilt from the ledger when a conversation is opened again. `take` reads a reply
and bills it, whatever becomes of it, and gives the body of the log entry to be. `Passing` passes a stream's events on
and takes the reply they amount to at its end; a stream that stops early is a failed call, billed as far as it said.
`Pace` follows one lane of the ledger (gaps, growth, what the last request left in the cache, bills that contradict the
rule of mixed lifetimes) for the planner.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.economics.bill import Price
from contextkit.economics.rhythm import Rhythm
from contextkit.errors import (
    BudgetExceeded,
    ColdCacheRefused,
    InvalidCall,
    NotSerialisable,
    UnknownModel,
    UnreadableReply,
    UsageError,
)
from contextkit.ledger.budget import CHARGE, Budget, Hold, Limit, PlannedCall, may_be_billed, planned_call
from contextkit.ledger.calls import ModelCall, Outline, Remark
from contextkit.ledger.cold import ColdCache, OnCold, at_risk_usd, is_cold, n_left, n_not_read, rewarming_usd
from contextkit.ledger.ledger import Ledger, Recorder
from contextkit.ledger.send_gate import SendGate
from contextkit.ledger.transport import Call, as_sdk_error, observed
from contextkit.models import Model, model_named
from contextkit.prices import cost_usd
from contextkit.prompt.planner import NO_ENTRIES, CachedEntries, PlanningState
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.call_ids import with_unique_calls
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.providers.engine_masks import with_calls
from contextkit.providers.masking import Lowered
from contextkit.providers.parameters import is_prewarm, with_output_limit
from contextkit.providers.provider import Provider, Reply, assistant_body
from contextkit.providers.rendering import as_read
from contextkit.providers.reply_json import plain, sendable
from contextkit.providers.request import Request
from contextkit.providers.server_state import Continued
from contextkit.providers.usage import billed_usd_of

_FAR_BELOW = 0.5
"""A bill that reads less than this share of what was predicted has read something else."""


class Pace:
    """One lane of a ledger."""

    __slots__ = (
        "_before",
        "_lane",
        "_ledger",
        "_left",
        "_lifetimes",
        "_n",
        "_n_left",
        "_rhythm",
        "_size",
        "_states",
        "contradicted",
    )

    def __init__(self, lane: tuple[str, str]) -> None:
        """`lane`: session and lane."""
        self._lane, self._rhythm = lane, Rhythm()
        self._ledger: Ledger | None = None
        self._n, self._size = 0, 0
        self._n_left = 0
        self._before: float | None = None
        self._left: dict[str, CachedEntries] = {}
        self._lifetimes: dict[str, set[int]] = {}
        """Model → lifetimes that the ends of its requests were written with, since the last declared break."""
        self.contradicted: set[str] = set()
        """Models of which a bill shows that a breakpoint did not read an entry of another lifetime."""
        self._states: dict[tuple[str, int], PlanningState] = {}

    def n_left(self, ledger: Ledger) -> int:
        """Tokens that the last call of the lane left in its cache; 0 before the first."""
        self.follow(ledger)
        return self._n_left

    def planning_state(
        self,
        model: Model,
        now: float,
        epoch: int,
        calls_to_come: float | None = None,
        *,
        is_mixed: bool = True,
    ) -> PlanningState:
        """What is known of the lane, as far as it was followed, before its next request to `model`."""
        key = (model.name, self._rhythm.turns)
        tables = self._states[key]._tables if key in self._states else {}
        planning_state = PlanningState(
            self._rhythm,
            _price(model, now),
            now,
            self._left.get(model.name, NO_ENTRIES),
            epoch,
            calls_to_come,
            is_mixed=is_mixed,
            _tables=tables if calls_to_come is None else {},
        )
        self._states = {key: planning_state} if calls_to_come is None else self._states
        return planning_state

    def follow(self, ledger: Ledger) -> None:
        """Read what was recorded since."""
        if ledger is not self._ledger:
            self._ledger, self._n = ledger, 0
        for call in ledger.calls[self._n :]:
            self._see(call)
            self._n += 1

    def _see(self, call: ModelCall) -> None:
        if (call.session, call.lane) != self._lane or call.first_byte_at is None:
            return
        size = _size(call)
        if self._before is not None:
            self._rhythm.see(max(call.at - self._before, 0.0), max(size - self._size, 0))
        self._before, self._size = call.at, size
        usage = call.usage if call.usage and call.usage.read is not None else call.predicted
        self._n_left = n_left(usage or Usage(), model_named(call.model, call.provider))
        if isinstance(call.prompt, Outline):
            self._note(call, call.prompt)

    def _note(self, call: ModelCall, prompt: Outline) -> None:
        breakpoints = tuple(point for point in prompt.breakpoints if point.is_written)
        last = self._left.get(call.model, NO_ENTRIES)
        if last.epoch != prompt.epoch:
            self._lifetimes[call.model] = set()
        lifetimes = self._lifetimes.setdefault(call.model, set())
        if breakpoints and last.breakpoints and lifetimes:
            changes = last.breakpoints[-1].ttl_seconds != breakpoints[-1].ttl_seconds
            outlives = len(lifetimes) > 1 and call.at - last.at >= min(lifetimes)
            if (changes or outlives) and _reads_too_little(call):
                self.contradicted.add(call.model)
        if breakpoints:
            lifetimes.add(breakpoints[-1].ttl_seconds)
        self._left[call.model] = CachedEntries(breakpoints, call.at, prompt.epoch)


def _price(model: Model, at: float) -> Price:
    """What a bill costs at that time; a model that is registered without a price costs nobody knows what."""

    def price(usage: Usage) -> float | None:
        try:
            return cost_usd(model.provider, model.name, usage, at)
        except UnknownModel:
            return None

    return price


def _size(call: ModelCall) -> int:
    usage, predicted = call.usage, call.predicted
    return (usage.prompt if usage else None) or (predicted.prompt if predicted else None) or 0


def _reads_too_little(call: ModelCall) -> bool:
    """Return whether far less was read than the reference cache expected."""
    billed = call.usage.read if call.usage else None
    expected = call.predicted.read if call.predicted else None
    return billed is not None and bool(expected) and billed < _FAR_BELOW * (expected or 0)


_PromptKey = tuple[tuple[bytes, bytes, bytes], bytes]


def _key(prompt: Prompt) -> _PromptKey:
    """What tells one prompt from every other: digests run, so the last one stands for all."""
    return prompt.namespaces, prompt.digests[prompt.n - 1] if prompt.n else b""


class Account:
    """One lane's requests, predictions and bills.

    A response has one row, however often it is received: after a full disk, or when the folder was opened again.
    """

    __slots__ = (
        "_answered",
        "_billed",
        "_caches",
        "_clock",
        "_gate",
        "_has_unique_ids",
        "_lane",
        "_last",
        "_lock",
        "_noted",
        "_pace",
        "_recorder",
        "_session",
        "_warned",
        "limits",
        "on_cold",
    )

    def __init__(
        self, ledger: Ledger, session: str, lane: str, clock: Callable[[], float], wait_seconds: float = 10.0
    ) -> None:
        """`wait_seconds`: the longest that a call waits for another one that writes the prefix they share."""
        if not isinstance(ledger, Ledger):
            raise UsageError(f"ledger is a contextkit.Ledger, not {type(ledger).__name__}")
        self._session, self._lane, self._clock = session, lane, clock
        self.limits: tuple[Limit, ...] = ()
        """Budgets that every call is checked against."""
        self.on_cold: OnCold | None = None
        """Asked before a call that pays again for what the cache held."""
        self._warned: Request | None = None
        """The cold request that was agreed to last."""
        self._caches: dict[str, PrefixCache[Prompt]] = {}
        self._lock = Lock()
        self._gate = SendGate(wait_seconds)
        self._last: Request | None = None
        self._billed: dict[str, tuple[_PromptKey, Usage | None]] = {}
        """Id of a response → what it answered and what it was billed. Responses of a host that gives all of them one id
        differ in that."""
        self._has_unique_ids = True
        self._answered: tuple[Request, object, ModelCall] | None = None
        """The request and the response received last, and their row."""
        self._noted: tuple[Request, BaseException] | None = None
        """The failure noted last."""
        for call, prompt in ledger.prompts():
            if prompt is not None:
                self._warm(call, prompt)
                if (call.session, call.lane) == (session, lane):
                    self._remember(call.id, prompt, call.usage)
        self._recorder, self._pace = Recorder(ledger), Pace((session, lane))

    def request(
        self,
        provider: Provider,
        layout: PromptLayout,
        params: Mapping[str, Json],
        headers: Mapping[str, str],
        after: int,
        epoch: int,
        mask: Lowered,
        continued: Continued | None = None,
    ) -> Request:
        """The request that sends `layout` now, with what it should be billed.

        Raises `BudgetExceeded` where it could cost more than a budget has left.
        """
        now, prompt = self._clock(), provider.prompt(layout, params)
        if self.limits:
            call, params = self._capped(provider, prompt, params, 1)
            for budget, session in self.limits:
                budget.check(call, session)
        with self._lock:
            usage = replace(
                self._cache(provider.model.name, provider.name).quote(prompt, now), output=None, estimated=True
            )
        self._last = Request(
            layout,
            provider.path,
            params,
            headers,
            usage,
            wire=provider.wire,
            provider=provider.name,
            model=provider.model,
            prompt=prompt,
            after=after,
            epoch=epoch,
            at=now,
            mask=mask if mask.entry < 0 else replace(mask, layout=layout),
            observe=self.failed,
            reserve=partial(self.admit, provider) if self.limits or self.on_cold is not None else None,
            observing=self._observing if self.limits else None,
            continued=continued,
            sending=self._sending,
            asending=self._asending,
        )
        return self._last

    def _sending(self, request: Request) -> AbstractContextManager[None]:
        return self._gate.sending(request, lambda: self._read_tokens(request), _price(request.model, request.at))

    def _asending(self, request: Request) -> AbstractAsyncContextManager[None]:
        return self._gate.asending(request, lambda: self._read_tokens(request), _price(request.model, request.at))

    def _read_tokens(self, request: Request) -> int:
        """What `request` would read if it were sent now."""
        with self._lock:
            cache = self._cache(request.model.name, request.provider)
            return cache.quote(request._prompt, self._clock()).read or 0

    def quote(self, provider: Provider, layout: PromptLayout, fields: Mapping[str, Json] | None = None) -> Usage:
        """What sending `layout` to `provider`, with `fields` beside its own, would be billed now; nothing is sent."""
        with self._lock:
            cache = self._cache(provider.model.name, provider.name)
            return cache.quote(provider.prompt(layout, {**provider.params, **(fields or {})}), self._clock())

    def planning_state(self, model: Model, now: float, epoch: int, calls_to_come: float | None = None) -> PlanningState:
        """What is known of this lane before its next request to `model`; `now` is the time of the last thing said."""
        with self._lock:
            self._pace.follow(self._recorder.ledger)
            cache = self._cache(model.name, model.provider)
            is_mixed = True
            if isinstance(cache, BreakpointCache):
                if model.name in self._pace.contradicted:
                    cache.separate_lifetimes()
                is_mixed = cache.is_ttl_interchangeable
            return self._pace.planning_state(model, now, epoch, calls_to_come, is_mixed=is_mixed)

    def admit(self, provider: Provider, request: Request, n_attempts: int) -> Hold:
        """Ask `on_cold` where the cache is cold, then reserve in every budget.

        Raises `ColdCacheRefused`, what `on_cold` raises, and `BudgetExceeded`: nothing is sent then.
        """
        if self.on_cold is not None and self._warned is not request:
            cold = self.cold(request)
            if cold is not None and self.on_cold(cold) is False:
                raise ColdCacheRefused(f"{cold}; on_cold returned False, so nothing was sent", cold)
            self._warned = request
        if not self.limits:
            return Hold((), self._planned(request))
        call, params = self._capped(provider, request._prompt, request.params, n_attempts)
        hold = self._reserve(request, call, n_attempts)
        if params is not request.params:
            request.cap_output(params)
        return hold

    def _capped(
        self, provider: Provider, prompt: Prompt, params: Mapping[str, Json], n_attempts: int
    ) -> tuple[PlannedCall, Mapping[str, Json]]:
        """The call, and its parameters, with the output capped where the whole budget is smaller than what it may cost.

        The fewest tokens that are of use are asked for where there is room for less: whoever reserves them refuses.
        """
        call = planned_call(provider.name, provider.model, prompt, params, self._clock(), wire=provider.wire)
        room, tightest = min(
            ((budget.output_room(call, session, n_attempts), budget) for budget, session in self.limits),
            key=lambda one: one[0],
        )
        is_least = room < call.least_output
        n_output = max(room, call.least_output) // call.n_answers
        field = getattr(provider, "output_field", "max_completion_tokens")
        capped = with_output_limit(provider.wire, params, n_output, field)
        if room >= call.output_tokens or capped == params:
            return call, params
        if not is_least:
            limit = f"{call.output_tokens // call.n_answers:,} requested" if call.has_output_limit else "none was set"
            tightest.warn_capped(limit, n_output)
        return replace(call, output_tokens=n_output * call.n_answers, is_least=is_least), capped

    def _observing(self, request: Request, client: Any) -> Any | None:
        """A copy of `client` that sets aside what each attempt of its SDK may cost; None where its attempts are not seen."""
        return observed(client, _Attempts(self, request, request.wire.partition("_")[0]))

    def cold(self, request: Request) -> ColdCache | None:
        """What sending `request` now pays again of what the call before left; None where it reads that."""
        now = self._clock()
        with self._lock:
            n_cached = self._pace.n_left(self._recorder.ledger)
            cache = self._cache(request.model.name, request.provider)
            usage, hit = cache.quote(request._prompt, now), cache.lookup(request._prompt, now)
        if not is_cold(n_cached, usage, request.model):
            return None
        n_tokens = n_not_read(n_cached, usage)
        cost = rewarming_usd(usage, n_tokens, _price(request.model, now))
        died = hit.expires_at if hit.reason == "ttl_expired" else None
        return ColdCache(self._lane, request.model.name, n_tokens, cost, hit.reason, died)

    def warmth(
        self, provider: Provider, layout: PromptLayout, fields: Mapping[str, Json]
    ) -> tuple[float | None, float | None]:
        """When the entry ends that the next request would read now, and what its end would cost; (None, 0.0) without one."""
        now, prompt = self._clock(), provider.prompt(layout, {**provider.params, **fields})
        with self._lock:
            cache = self._cache(provider.model.name, provider.name)
            usage, hit = cache.quote(prompt, now), cache.lookup(prompt, now)
        if not hit.read_tokens:
            return None, 0.0
        written = [point.ttl_seconds for point in prompt.breakpoints if point.is_written]
        ttl = written[-1] if written else provider.model.default_ttl_seconds
        return hit.expires_at, at_risk_usd(usage, provider.model, ttl, _price(provider.model, now))

    def reserve_again(self, request: Request) -> None:
        """Set aside what another attempt to send `request` may cost. Raises `BudgetExceeded`."""
        self._reserve(request, self._planned(request), 1)

    def forfeit(self, request: Request) -> None:
        """Charge what was set aside for `request`, and is not closed, its most: no one will hear of it any more."""
        lost = Hold((), self._planned(request))
        if isinstance(request.hold, Hold):
            lost.follow(request.hold)
        request.hold = lost

    def _reserve(self, request: Request, call: PlannedCall, n_attempts: int) -> Hold:
        """Set aside what so many attempts may cost, in every budget. Raises `BudgetExceeded` where one has less left.

        What an earlier attempt to send it has set aside stays as its charge: nobody said that it was not billed.
        """
        hold = Hold(self.limits, call, n_attempts=n_attempts)
        earlier, request.hold = request.hold, hold
        if isinstance(earlier, Hold):
            hold.follow(earlier)
        return hold

    @contextmanager
    def limited_by(self, budget: Budget) -> Iterator[None]:
        """While the block runs, calls are checked against `budget` too."""
        limit = (budget, self._session)
        self.limits = (*self.limits, limit)
        try:
            yield
        finally:
            self.limits = tuple(other for other in self.limits if other is not limit)

    def lost(self, request: Request) -> None:
        """Charge `request` the most it may have cost, where a budget limits it: a reply came that cannot be read."""
        if request.hold is not None:
            now = self._clock()
            self._note(request, None, None, now, now, "unreadable", is_billed=True)

    def now(self) -> float:
        """The time on this conversation's clock."""
        return self._clock()

    def share(self, other: Account) -> None:
        """Follow the same caches as `other`, spend from the same budgets and wait for the same calls: a branch is sent
        to the same provider, perhaps by another thread.
        """
        self._caches, self._lock, self.limits = other._caches, other._lock, other.limits
        self.on_cold = other.on_cold
        self._gate = other._gate

    def keep_with(self, other: Account) -> None:
        """Write into the ledger of `other`, and follow its caches: a sub-agent's bills are its caller's.

        Reads nothing again.
        """
        self.share(other)
        self._recorder = other._recorder

    def resume(self) -> None:
        """Read which responses of this lane have rows in the ledger already, so that one received again is not billed
        twice.
        """
        for call, prompt in self._recorder.ledger.prompts():
            if prompt is not None and (call.session, call.lane) == (self._session, self._lane):
                self._remember(call.id, prompt, call.usage)

    def last(self, build: Callable[[], Request]) -> Request:
        """The request built last, or a fresh one where none was."""
        return build() if self._last is None else self._last

    def note_removed_reasoning(self, name: str, reasons: Iterable[str]) -> None:
        """The provider says of the reply `name` why earlier reasoning was left out of its prompt: a remark on the call,
        nothing else.
        """
        if text := ", ".join(reasons):
            remark = Remark("verdict", name, f"reasoning removed: {text}")
            if remark not in self._recorder.ledger.remarks:
                self._recorder.ledger.remark(remark)

    def was_billed_before(self, name: str, usage: Usage) -> bool:
        """Whether a response of this id and bill is the last row of this lane, written before the conversation was
        opened.
        """
        if self._answered is not None:
            return False
        lane = self._session, self._lane
        last = next((row for row in reversed(self._recorder.ledger.calls) if (row.session, row.lane) == lane), None)
        return bool(name) and last is not None and (last.id, last.usage) == (name, usage)

    def received(self, request: Request, reply: Reply, response: object, first_byte_at: float | None = None) -> None:
        """A reply came: note what it was billed, unless it is noted already.

        `response` is what the reply was read from.
        """
        self._bill(request, response, reply.id, reply.usage, None, first_byte_at)

    def unkept(
        self, request: Request, response: object, name: str, usage: Usage, why: str, first_byte_at: float | None = None
    ) -> None:
        """A reply came and was billed, but cannot be part of the conversation.

        One that is in the ledger already is not billed twice.

        Where the host's ids are its responses' own, that is so whatever request the reply is said to answer.
        """
        _, billed = self._billed.get(name, (None, None))
        if name and self._has_unique_ids and billed == usage:
            self._charge(request, usage, is_billed=True, has_row=True)
            return
        self._bill(request, response, name, usage, why, first_byte_at)

    def bill_of(self, request: Request) -> tuple[Usage | None, float | None]:
        """Usage and dollars of the request answered last; (None, None) for another one."""
        if self._answered is None or self._answered[0] is not request:
            return None, None
        row = self._answered[2]
        usage = row.usage
        if usage is None or row.billed_usd is not None:
            return usage, row.billed_usd
        return usage, _price(request.model, row.at)(usage)

    def failed(
        self,
        request: Request,
        error: BaseException | str,
        usage: Usage | None = None,
        first_byte_at: float | None = None,
        *,
        was_answered: bool = False,
    ) -> None:
        """It came to nothing: note why, and what is known of the bill. Without a first byte it warmed nothing.

        `was_answered`: a response was there, so it may have been billed without one.

        An error that was noted already, by `Request.send` or with the bill of a response, is not noted twice.
        """
        if request.continued is not None:
            request.continued.failed(error)
        if self._noted is not None and self._noted[0] is request and self._noted[1] is error:
            return
        what = error if isinstance(error, str) else _named(error)
        is_answered = was_answered or first_byte_at is not None or usage is not None
        is_billed = is_answered or (isinstance(error, BaseException) and may_be_billed(error))
        self._note(
            request,
            None,
            usage,
            first_byte_at,
            self._clock(),
            what,
            is_billed=is_billed,
            is_answered=is_answered,
        )
        if isinstance(error, BaseException):
            self.settled(request, error)

    def settled(self, request: Request, error: BaseException) -> None:
        """What `error` says of `request` needs no row any more."""
        self._noted = request, error

    def _bill(
        self,
        request: Request,
        response: object,
        name: str,
        usage: Usage,
        error: str | None,
        first_byte_at: float | None,
    ) -> None:
        if self._is_billed(request, response, name, usage):
            self._charge(request, usage, is_billed=True, has_row=True)
            return
        now = self._clock()
        first = now if first_byte_at is None else first_byte_at
        usd = _billed_usd(response)
        row = self._note(request, name, usage, first, now, error, is_billed=True, billed_usd=usd)
        self._remember(name, request._prompt, usage)
        self._answered = request, response, row

    def _remember(self, name: str, prompt: Prompt, usage: Usage | None) -> None:
        self._has_unique_ids = self._has_unique_ids and name not in self._billed
        self._billed[name] = _key(prompt), usage

    def _is_billed(self, request: Request, response: object, name: str, usage: Usage) -> bool:
        """Whether this response has its row: the same id for the same prompt, or, where the host gives none, the same
        object.
        """
        if name and self._billed.get(name) == (_key(request._prompt), usage):
            return True
        if self._answered is None:
            return False
        answered, before, row = self._answered
        return answered is request and row.usage == usage and row.id == name and (before is response or bool(name))

    def _note(
        self,
        request: Request,
        name: str | None,
        usage: Usage | None,
        first: float | None,
        ended: float,
        error: str | None,
        *,
        is_billed: bool,
        is_answered: bool = True,
        billed_usd: float | None = None,
    ) -> ModelCall:
        with self._lock:
            name = self._free_name() if name is None else name
            key = self._session, self._lane, name, request.at
            charge = self._charge(request, usage, is_billed=is_billed, is_answered=is_answered)
            for budget, _ in self.limits:
                budget.count(key)
            if charge is not None:
                self._recorder.ledger.remark(Remark(CHARGE, name, charge))
            call = ModelCall(
                id=name,
                session=self._session,
                lane=self._lane,
                at=request.at,
                first_byte_at=first,
                ended_at=ended,
                provider=request.provider,
                model=request.model.name,
                usage=usage,
                predicted=request.predicted,
                error=error,
                billed_usd=billed_usd,
            )
            call = self._recorder.record(call, request._prompt, request.layout.columns.entries, request.epoch)
            self._warm(call, request._prompt)
        self._gate.forget(request)
        return call

    def _charge(
        self,
        request: Request,
        usage: Usage | None,
        *,
        is_billed: bool,
        is_answered: bool = True,
        has_row: bool = False,
    ) -> str | None:
        """Charge a call that is over to the budgets; returns the remark that keeps what its bill does not say.

        Attempts that nobody saw share the fate of the last one: where that was answered, or refused with a status, the
        others were not billed; where nothing is known of it (`is_answered` is false), nothing is of the others.

        One that was sent without `Request.send` has nothing set aside: it is charged all the same, unless it has its row.
        """
        hold, request.hold = request.hold, None
        if hold is None and self.limits and is_billed and not has_row:
            hold = Hold(self.limits, self._planned(request), is_sent=True)
        if not isinstance(hold, Hold):
            return None
        if not is_billed:
            return hold.release()
        return hold.settle(usage) if is_answered else hold.forfeit()

    def _planned(self, request: Request) -> PlannedCall:
        return planned_call(
            request.provider, request.model, request._prompt, request.params, self._clock(), wire=request.wire
        )

    def _free_name(self) -> str:
        """An id for a call without a response, that no other row has: rows may be missing before it."""
        rows = self._recorder.ledger.calls
        number, used_ids = len(rows), {row.id for row in rows if row.id.startswith("failed-")}
        while f"failed-{number}" in used_ids:
            number += 1
        return f"failed-{number}"

    def _warm(self, call: ModelCall, prompt: Prompt) -> None:
        if call.first_byte_at is None:
            return
        cache = self._cache(call.model, call.provider)
        lease = cache.begin(prompt, call.at)
        cache.publish(lease, call.first_byte_at)
        cache.end(lease, 0, call.ended_at or call.first_byte_at)

    def _cache(self, model: str, provider: str) -> PrefixCache[Prompt]:
        if model not in self._caches:
            self._caches[model] = reference_cache(model_named(model, provider))
        return self._caches[model]


class _Attempts:
    """The attempts of an SDK to send one request, as they leave: the first one's reservation is made already."""

    def __init__(self, account: Account, request: Request, sdk: str) -> None:
        self._account, self._request, self._sdk = account, request, sdk
        self._n = 0

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """An attempt is about to leave. Raises `BudgetExceeded`."""
        self._n += 1
        if self._n > 1:
            try:
                self._account.reserve_again(self._request)
            except BudgetExceeded as exceeded:
                self._account.forfeit(self._request)
                raise as_sdk_error(exceeded, self._sdk) from None
        hold = self._request.hold
        return _Attempt(body or b"", hold) if isinstance(hold, Hold) else None

    def close(self) -> None:
        """The client is closed."""


class _Attempt:
    """One attempt: its reservation is released where it was not billed; else whoever receives the reply settles it."""

    def __init__(self, body: bytes, hold: Hold) -> None:
        self.body, self._hold = body, hold

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """The response begins."""
        if status >= 300:
            self._hold.release()

    def feed(self, chunk: bytes) -> None:
        """A chunk passes by."""

    def ended(self, *, is_whole: bool, error: str = "", was_sent: bool = True) -> None:
        """No more will come."""
        if not was_sent:
            self._hold.release()


_ABORTS = (KeyboardInterrupt, GeneratorExit, CancelledError)
"""How the caller's own wish to stop arrives."""


def _named(error: BaseException) -> str:
    """What went wrong, without the text of it: a provider's message may quote the prompt."""
    if isinstance(error, _ABORTS):
        return "aborted"
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    kind = inner.get("type") if isinstance(inner, Mapping) else None
    status = getattr(error, "status_code", 0)
    return " ".join(str(part) for part in (status if status >= 400 else None, kind) if part) or type(error).__name__


_MISFITS = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError, NotSerialisable)
"""Faults of reading JSON of another form."""


def read_reply(provider: Provider, response: Any) -> Reply:
    """`provider.reply`, whatever it is given. Raises `UnreadableReply` for what is not a response of this endpoint.

    One that holds what JSON cannot carry (lone surrogates, NaN) is read again with that written as text.
    """
    try:
        try:
            return _readable(provider, response)
        except NotSerialisable:
            return _readable(provider, sendable(plain(response)))
    except _MISFITS as fault:
        raise UnreadableReply(f"not a reply as {provider.wire} sends them ({type(fault).__name__}: {fault})") from fault


def _readable(provider: Provider, response: Any) -> Reply:
    """`provider.reply`, in which each call has an id of its own. Raises `NotSerialisable` for a reply the log cannot
    keep.
    """
    reply = provider.reply(response)
    if len({call.id for call in reply.calls}) < len(reply.calls):
        reply = replace(provider.reply(with_unique_calls(plain(response))), is_renamed=True)
    if type(reply.id) is not str:  # a gateway may send another type
        reply = replace(reply, id=str(reply.id or ""))
    canonical(
        [reply.id, reply.native.model, reply.text, [[call.id, call.name, call.arguments] for call in reply.calls]]
    )
    return reply


def _billed_anyway(provider: Provider, response: Any) -> tuple[str, Usage]:
    """Id and bill of a response that cannot be kept, as far as it says them."""
    try:
        answer = plain(response)
        return str(answer.get("id", "")), provider.usage(answer)
    except (*_MISFITS, UnreadableReply):
        return "", Usage()  # what says nothing is billed nothing we know of


def _billed_usd(response: object) -> float | None:
    """Dollars that a router says a response cost; None where it says none."""
    usage = response.get("usage") if isinstance(response, Mapping) else getattr(response, "usage", None)
    try:
        return billed_usd_of(plain(usage))
    except UnreadableReply:
        return None


def take(
    response: Any,
    request: Request,
    provider: Provider,
    account: Account,
    check: Callable[[str, Json], None],
    is_kept: Callable[[Json], bool],
    first_byte_at: float | None,
) -> dict[str, Json] | bool:
    """The body of the entry that keeps `response`, once its bill is in the ledger.

    `check` says whether it may come next.

    True where the log ends with that body already, as `is_kept` says: whoever received it died before learning of that.
    False for the reply to a prewarm: it filled the cache and says nothing.

    Raises `UnreadableReply` and what `check` raises; the bill is in the ledger then too, as far as the response says
    it.
    """
    form = request.mask.text_calls
    try:
        reply = read_reply(provider, response if form is None else with_calls(form, response, request.after))
    except UnreadableReply as fault:
        _unkept(request)
        name, usage = _billed_anyway(provider, response)
        if usage != Usage():
            account.unkept(request, response, name, usage, "unreadable", first_byte_at)
            account.settled(request, fault)
        account.lost(request)
        raise
    reply = replace(reply, usage=_with_lifetimes(reply.usage, request))
    current = request
    withheld: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    if reply.withheld:
        read = as_read(request, provider, reply.withheld)
        request, withheld, reasons = read.request, read.withheld, read.reasons
    if is_prewarm(request.params):
        account.note_removed_reasoning(reply.id, reasons)
        account.received(request, reply, response, first_byte_at)
        return False
    native = reply.native
    kept = assistant_body(native.wire, native.model, parse(native.body), reply.text, reply.calls, reply.stop)
    body = {"after": request.after, **kept, **({"withheld": list(withheld)} if withheld else {})}
    if reply.is_renamed:
        _unkept(request)  # what the server keeps has the ids that came
    elif request.continued:
        body |= request.continued.stored(request.model.name, reply.id)
    if account.was_billed_before(reply.id, reply.usage) and is_kept(body):
        return True
    account.note_removed_reasoning(reply.id, reasons)
    try:
        check("assistant", body)
    except InvalidCall as fault:
        _unkept(request)
        account.unkept(request, response, reply.id, reply.usage, "not kept", first_byte_at)
        account.settled(current, fault)
        raise
    account.received(request, reply, response, first_byte_at)
    return body


_COUNTS_WRITES_TOGETHER = frozenset({"openai_chat"})
"""Endpoints whose counters give one number for the writes of all lifetimes (openai/types/completion_usage.py)."""


def _with_lifetimes(usage: Usage, request: Request) -> Usage:
    """The usage with its writes divided among lifetimes as predicted, where the endpoint counts them together."""
    if request.wire not in _COUNTS_WRITES_TOGETHER:
        return usage
    written, predicted = usage.written, request.predicted.write_1h
    if not written or not predicted:
        return usage
    long = min(predicted, written)
    ttls = [mark.ttl_seconds for mark in request._prompt.breakpoints if mark.is_written]
    return replace(usage, writes=Usage(writes={min(ttls): written - long, max(ttls): long}).writes)


def _unkept(request: Request) -> None:
    """The server may keep a reply that the log does not."""
    if request.continued is not None:
        request.continued.failed("not kept")


class Passing:
    """One stream: what has come of it so far, and what to do when it ends."""

    __slots__ = ("_account", "_events", "_first_byte_at", "_keep", "_provider", "_request")

    def __init__(
        self,
        provider: Provider,
        request: Request,
        account: Account,
        keep: Callable[[Mapping[str, Json], Request, float | None], object],
    ) -> None:
        self._provider, self._request, self._account, self._keep = provider, request, account, keep
        self._events: list[Any] = []
        self._first_byte_at: float | None = None

    def through(self, events: Any) -> Any:
        """The same events: an async iterator for an async stream, else an iterator.

        Raises `UsageError` for what is no stream.
        """
        if not hasattr(events, "__aiter__") and not hasattr(events, "__iter__"):
            raise UsageError(
                f"{type(events).__name__} is no stream: pass what request.stream(client) gave, awaited for an async client"
            )
        return self._apassed(events) if hasattr(events, "__aiter__") else self._passed(events)

    def _passed(self, events: Any) -> Iterator[Any]:
        try:
            for event in events:
                self._note(event)
                yield event
        except BaseException as error:
            self._broke(error)
            raise
        self._ended()

    async def _apassed(self, events: Any) -> AsyncIterator[Any]:
        try:
            async for event in events:
                self._note(event)
                yield event
        except BaseException as error:
            self._broke(error)
            raise
        self._ended()

    def _note(self, event: Any) -> None:
        if self._first_byte_at is None:
            self._first_byte_at = self._account.now()
        self._events.append(event)

    def _ended(self) -> None:
        joined = self._joined()
        if joined is None or not self._provider.is_complete(joined):
            self._account.failed(self._request, "cut", self._usage(joined), self._first_byte_at, was_answered=True)
            error = UnreadableReply("the stream ended before the reply was complete: nothing was kept, ask again")
            self._account.settled(self._request, error)
            raise error
        self._keep(joined, self._request, self._first_byte_at)

    def _broke(self, error: BaseException) -> None:
        """The reader left (and may have seen everything), or the connection did."""
        joined = self._joined()
        if isinstance(error, GeneratorExit) and joined is not None and self._provider.is_complete(joined):
            self._keep(joined, self._request, self._first_byte_at)
            return
        self._account.failed(self._request, error, self._usage(joined), self._first_byte_at, was_answered=True)

    def _joined(self) -> Mapping[str, Json] | None:
        """What has come so far.

        None where that is not even the start of a reply (a ping, or nothing, or events of another kind).
        """
        try:
            return self._provider.joined(self._events) if self._events else None
        except (UnreadableReply, NotSerialisable, KeyError, TypeError, AttributeError, IndexError):
            return None

    def _usage(self, joined: Mapping[str, Json] | None) -> Usage | None:
        """The usage that a cut stream reported: input, reads and writes are final, the output is a lower bound."""
        usage = Usage() if joined is None else self._provider.usage(joined).with_partial_output()
        return None if usage == Usage() else usage
