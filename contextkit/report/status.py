"""State of a session's cache: what it read, how long it stays warm, what a cold start would cost, its last loss.

Takes records, or the figures that Claude Code hands to a status line, and gives a `SessionState`, one line of text. A
lifetime counts from the start of the call that wrote or read the entry. What reads and judges records is imported when
there are some: Claude Code asks for a line every few seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contextkit.ledger.figures import Share, dollars

if TYPE_CHECKING:
    from contextkit.ledger.calls import Record
    from contextkit.ledger.misses import AnalyzedCall

RECENT = 600.0
"""Seconds after its last call in which a session counts as running, though its cache is cold."""
MAIN = "main"
"""The lane whose cache the next call of a session reads."""
ID_CHARACTERS, MOST_TITLE = 8, 40
"""Characters of a session's id, and of its title, that stand before its line."""
Price = Callable[[str, str, int, int], float | None]
"""Provider, model, tokens and lifetime in seconds to the dollars that they cost more once their entry has died."""


@dataclass(frozen=True, slots=True)
class LastLoss:
    """The last call of a session that lost something it could have read."""

    cause: str
    """As in `Miss.cause`."""
    kind: str
    """What changed, as in `Gap.kind`; empty where that is unknown."""
    call: int | None
    """Number of the call among those of its session in the order of the recording, from 1; None where only its time is
    known."""
    at: float | None
    """When it was, seconds since 1970."""

    def text(self, now: float) -> str:
        """Say what it was due to, and which call it was or how long ago.

        >>> LastLoss("params_changed", "effort", 31, None).text(0.0), LastLoss("ttl_expired", "", None, 0.0).text(900.0)
        ('effort (call 31)', 'ttl expired (15 min ago)')
        """
        words = (self.kind or self.cause).replace("_", " ")
        if self.call is not None:
            return f"{words} (call {self.call:,})"
        return words if self.at is None else f"{words} ({_ago(now - self.at)})"


@dataclass(frozen=True, slots=True)
class SessionState:
    """The cache of one session; what is unknown is None."""

    session: str
    """Its id."""
    title: str
    """Its title; empty where it has none."""
    last_at: float | None
    """Start of its last call, seconds since 1970."""
    hit_rate: float | None
    """Tokens read over all input tokens."""
    cached_tokens: int | None
    """Tokens that the next call could read."""
    expires_at: float | None
    """When they go, seconds since 1970."""
    is_ttl_recorded: bool
    """Whether the lifetime is recorded; otherwise it is the model's default."""
    at_risk_usd: float | None
    """What the next call costs more once they are gone."""
    last_loss: LastLoss | None
    """None where no call lost anything."""

    @property
    def name(self) -> str:
        """The title, or the start of the id."""
        return f"{self.title[: MOST_TITLE - 1]}…" if len(self.title) > MOST_TITLE else self.title or self.session[:8]

    def is_warm(self, now: float) -> bool:
        """Return whether its cache is warm at the second `now`."""
        return self.expires_at is not None and self.expires_at - now >= 1

    def is_running(self, now: float) -> bool:
        """Return whether its cache is warm, or it made a call not long ago."""
        return self.is_warm(now) or now - (self.last_at or 0.0) < RECENT

    def line(self, now: float) -> str:
        """Format it at the second `now`; what is unknown is left out.

        >>> loss = LastLoss("params_changed", "effort", 31, None)
        >>> SessionState("s", "", 0.0, 0.961, 90_000, 300.0, True, 0.84, loss).line(108.0)
        'cache 96.1 % · warm 3:12 · $0.84 at risk · last miss: effort (call 31)'
        >>> SessionState("s", "", 0.0, None, None, None, False, None, None).line(0.0)
        'cache: no call yet'
        """
        left = None if self.expires_at is None else countdown(self.expires_at - now, is_recorded=self.is_ttl_recorded)
        is_warm, usd = self.is_warm(now), self.at_risk_usd
        parts = [
            None if self.hit_rate is None else Share(self.hit_rate).spaced,
            f"warm {left}" if is_warm else left,
            None if usd is None else f"{dollars(usd)} {'at risk' if is_warm else 'more for the next call'}",
            None if self.last_loss is None else f"last miss: {self.last_loss.text(now)}",
        ]
        text = " · ".join(part for part in parts if part)
        return f"cache {text}" if text else "cache: no call yet"


def countdown(seconds: float, *, is_recorded: bool) -> str:
    """Say how long an entry stays, or that it has gone; `~` stands before a lifetime that no bill names.

    >>> countdown(192.4, is_recorded=True), countdown(3700, is_recorded=False), countdown(0.9, is_recorded=True)
    ('3:12', '~1:01:40', 'cold')
    """
    if seconds < 1:
        return "cold"
    hours, rest = divmod(int(seconds), 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
    return clock if is_recorded else f"~{clock}"


def _ago(seconds: float) -> str:
    minutes = int(seconds) // 60
    return "just now" if minutes < 1 else f"{minutes} min ago" if minutes < 120 else f"{minutes // 60:,} h ago"


# By judged calls
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WarmLane:
    """What the last billed call of a lane left in its cache."""

    session: str
    """Its session."""
    agent: str
    """Who makes its calls: `main`, a branch or a sub-agent."""
    provider: str
    """The provider of that call."""
    model: str
    """The model of that call: another model has a cache of its own."""
    at: float
    """When the call started, seconds since 1970."""
    n_tokens: int
    """Tokens that the next call could read."""
    ttl_seconds: int
    """How long they stay, from `at` on: the longest lifetime that was written since the lane last lost its cache."""
    is_ttl_recorded: bool
    """Whether the bill names the lifetime; otherwise it is the model's default."""

    @property
    def expires_at(self) -> float:
        """When they go, seconds since 1970."""
        return self.at + self.ttl_seconds

    @property
    def cold_usd(self) -> float | None:
        """What the next call costs more once they are gone; None where the model has no price."""
        return list_at_risk_usd(self.provider, self.model, self.n_tokens, self.ttl_seconds)


def list_at_risk_usd(provider: str, model: str, n_tokens: int, ttl_seconds: int) -> float | None:
    """Return what a call that would read so many tokens costs more at list prices once their entry has died; None where
    the model has no price.
    """
    from contextkit import prices
    from contextkit.cache.usage import Usage
    from contextkit.errors import UnknownModel
    from contextkit.ledger.cold import at_risk_usd
    from contextkit.models import find_model, model_named

    row = find_model(model) or model_named(model, provider)
    try:
        price = prices.price_of(provider, model)
    except UnknownModel:
        return None
    return at_risk_usd(Usage(fresh=0, read=n_tokens, writes={}, output=0), row, ttl_seconds, price)


def warm_lane(analyzed: AnalyzedCall, before: WarmLane | None) -> WarmLane:
    """Return the state that a billed call left; `before` is that of its lane before it."""
    from contextkit.cache.usage import Usage
    from contextkit.ledger.cold import n_left
    from contextkit.models import find_model, model_named

    call, usage = analyzed.call, analyzed.usage or Usage()
    row = find_model(call.model) or model_named(call.model, call.provider)
    lifetimes = [ttl for ttl, n_tokens in usage.writes or () if n_tokens]
    is_lost = analyzed.miss is not None and analyzed.miss.is_loss
    if before is not None and before.is_ttl_recorded and before.model == call.model and not is_lost:
        lifetimes.append(before.ttl_seconds)
    ttl, is_recorded = max(lifetimes, default=row.default_ttl_seconds), bool(lifetimes)
    return WarmLane(
        call.session, analyzed.agent, call.provider, call.model, call.at, n_left(usage, row), ttl, is_recorded
    )


class Sessions:
    """The states of the sessions of a recording, fed its records."""

    def __init__(self) -> None:
        from contextkit.ledger.misses import LaterEvidence, LedgerAnalyzer
        from contextkit.ledger.summary import Tally

        self._analyzer, self._later, self._tally = LedgerAnalyzer(is_priced=False), LaterEvidence(), Tally("session")
        self._warm: dict[str, tuple[str, WarmLane]] = {}
        """Session → its main lane and what that left; the lane with the latest call where none is called so."""
        self._calls = Counter[str]()
        """Session → its calls so far."""
        self._losses: dict[str, tuple[int, AnalyzedCall]] = {}
        """Session → its last call that lost something, and its number."""
        self._last_at: dict[str, float] = {}
        self._titles: dict[str, str] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Add the next records."""
        from contextkit.ledger.calls import Remark

        for record in records:
            if isinstance(record, Remark) and record.kind == "title":
                self._titles[record.about] = record.text
            call = self._analyzer.feed(record)
            if call is not None:
                self._add(call)

    def _add(self, analyzed: AnalyzedCall) -> None:
        session, at = analyzed.call.session, analyzed.call.at
        self._tally.add(analyzed)
        lane, (warm_of, warm) = analyzed.call.lane, self._warm.get(session, ("", None))
        if analyzed.usage is not None and (lane == MAIN or warm_of != MAIN):
            self._warm[session] = lane, warm_lane(analyzed, warm if warm_of == lane else None)
        self._last_at[session] = max(at, self._last_at.get(session, at))
        self._calls[session] += 1
        _, before = self._losses.get(session, (0, None))
        if analyzed.miss is not None and analyzed.miss.is_loss and (before is None or at >= before.call.at):
            self._losses[session] = self._calls[session], analyzed
        for settled in self._later.feed(analyzed):  # a later call may have shown why it missed
            number, loss = self._losses.get(settled.call.session, (0, None))
            if loss is not None and loss.index == settled.index:
                self._losses[settled.call.session] = number, settled

    def copied(self) -> Sessions:
        """Another one with the same state, that goes on by itself."""
        ahead = Sessions()
        ahead._analyzer, ahead._later = self._analyzer.copy(), self._later.copied()
        ahead._tally, ahead._warm = self._tally.copied(), dict(self._warm)
        ahead._losses, ahead._calls = dict(self._losses), self._calls.copy()
        ahead._last_at, ahead._titles = dict(self._last_at), dict(self._titles)
        return ahead

    def states(self, price: Price = list_at_risk_usd) -> list[SessionState]:
        """Return the state of each session, the one with the latest call last."""
        rates = {row.name: row.hit_rate for row in self._tally.summary().groups}
        return [self._state(name, rates[name], price) for name in sorted(self._last_at, key=self._last_at.__getitem__)]

    def _state(self, session: str, hit_rate: float | None, price: Price) -> SessionState:
        _, warm = self._warm.get(session, ("", None))
        loss = self._losses.get(session)
        return SessionState(
            session,
            self._titles.get(session, ""),
            self._last_at[session],
            hit_rate,
            warm.n_tokens if warm else None,
            warm.expires_at if warm else None,
            bool(warm and warm.is_ttl_recorded),
            price(warm.provider, warm.model, warm.n_tokens, warm.ttl_seconds) if warm else None,
            _last_loss(*loss) if loss else None,
        )


def _last_loss(number: int, analyzed: AnalyzedCall) -> LastLoss:
    main = analyzed.verdict.main if analyzed.verdict else None
    cause = analyzed.miss.cause if analyzed.miss else ""
    return LastLoss(cause, main.kind if main else "", number, analyzed.call.at)


# By what Claude Code says
# ---------------------------------------------------------------------------------------------------------------------

TTL_SECONDS = {"5m": 300, "1h": 3600}
"""The lifetimes as Claude Code writes them."""


def from_client(status: Mapping[str, Any], price: Price) -> SessionState | None:
    """Return the state that the `prompt_cache` of a status of Claude Code gives; None where it has none.

    Its counts are those of the main conversation since the program started (`facts/clients.toml`).
    """
    cache = status.get("prompt_cache")
    if not isinstance(cache, dict):
        return None
    model = status.get("model")
    name = model.get("id") if isinstance(model, dict) else None
    n_tokens, ttl = _number(cache.get("recache_tokens_if_cold")), TTL_SECONDS.get(str(cache.get("ttl")))
    expires_at = _number(cache.get("expires_at"))
    has_price = isinstance(name, str) and n_tokens is not None and ttl is not None and expires_at is not None
    return SessionState(
        str(status.get("session_id") or ""),
        str(status.get("session_name") or ""),
        None,
        _number(cache.get("hit_ratio")),
        None if n_tokens is None else int(n_tokens),
        expires_at,
        True,
        price("", str(name), int(n_tokens or 0), ttl or 0) if has_price else None,
        _loss_of_client(cache),
    )


def _loss_of_client(cache: Mapping[str, Any]) -> LastLoss | None:
    at, told = _number(cache.get("last_miss_at")), cache.get("last_miss_cause")
    if at is None:
        return None
    from contextkit.facts.load import client

    names: Mapping[str, str] = client("claude-code")["miss_causes"]
    causes = told.get("causes") if isinstance(told, dict) else None
    first = next((str(cause) for cause in causes), "") if isinstance(causes, list) else ""
    cause, _, kind = names.get(first, "unknown").partition(".")
    return LastLoss(cause, kind, None, at)


def _number(value: object) -> float | None:
    """A number that is no less than 0; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e15 else None  # type: ignore[operator, arg-type]
