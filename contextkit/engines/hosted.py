"""A recorded ledger on a hosted provider's cache: what it would have read, and what it would have cost.

Takes a ledger whose prompts are outlines, gives an `Outcome`; knows nothing of files. Blocks are none of the hosted
caches' business: everything is counted in tokens. `anthropic` and `openai` follow the row of each call's model; every
other name is a row of `cache.hosted.rules`.

Assumed where a trace does not say: a mark stands on the last segment, with the shortest lifetime on offer; a mark that
asks for a lifetime nobody offers there gets the next longer one; a host that is asked to cache by a key is asked; calls
are routed by what they begin with; a reply began when it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from contextkit.cache.hosted.content_cache import Contents
from contextkit.cache.hosted.hosted_cache import Routed, head_of, hosted_cache
from contextkit.cache.hosted.rules import HOSTED, Rule
from contextkit.cache.prompt import Breakpoint
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import ZERO, Usage
from contextkit.engines.compare import Counts, Outcome
from contextkit.engines.simulate import Watch, simulate
from contextkit.engines.trace_engines import Setting
from contextkit.errors import UnknownModel, UsageError
from contextkit.ledger.calls import BlockIds, Exchange, Outline, Tokens
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.models import MODELS, Model, model_named
from contextkit.prices import cost_usd

_OPEN = ("deepseek", "mistral", "moonshotai", "zai")
"""Whose models others may serve."""
_BY_MODEL = {"anthropic": 0, "openai": HOSTED["openai"].per_minute}
"""Providers whose models each have rules of their own → requests of one prefix a minute that one of several servers
takes, 0 for any."""
_SELLS: Mapping[str, tuple[str, ...]] = {
    "azure-openai": ("openai",),
    "bedrock-claude": ("anthropic", "aws"),
    "groq": ("groq", *_OPEN),
    "fireworks": ("fireworks", *_OPEN),
}
"""Provider → whose models it answers for, where these are not its own alone."""
_ANY = "openrouter"
"""Answers for everybody's models."""
PROVIDERS = tuple(dict.fromkeys((*_BY_MODEL, *HOSTED)))
"""Whose caches there are."""


@dataclass(frozen=True, slots=True)
class _Host:
    """A provider for one replay."""

    provider: str
    """The id prices are looked up under."""
    name: str | None
    """The model that is requested instead of the recorded one."""
    cache_of: Callable[[str], Any]
    """A model's name → an empty cache."""
    outline_for: Callable[[Exchange, Outline], Outline]
    """A prompt as this provider would have been sent it."""
    storage_usd_per_mtok_hour: float = 0.0
    """What storing costs."""


def replay_hosted(
    ledger: Ledger,
    provider: str,
    model: str | None = None,
    *,
    servers: int | None = None,
    per_minute: int | None = None,
    watch: Watch = iter,
) -> Outcome:
    """Send every outlined call of `ledger` to `provider` again, to `model` or else to the model it was sent to.

    `servers` have a cache each, and beyond `per_minute` requests of one beginning another one answers; None for what
    the provider's row says. Where `watch` stops, the figures are those of the calls before. Raises `UsageError` where
    there is no such provider, a model is another one's or no call has an outline, `UnknownModel` for a model that has
    to have a row and has none.
    """
    host = _host(provider, model, servers, per_minute)
    calls = Ledger()
    for exchange in ledger:
        if isinstance(exchange.prompt, Outline):
            calls.append(_as_sent(exchange, exchange.prompt, host))
    if not len(calls):
        has_ids = any(isinstance(exchange.prompt, BlockIds | Tokens) for exchange in ledger)
        way = "replay it on an engine, as vllm" if has_ids else "contextkit whatif FILE works with bodies and bills"
        raise UsageError(f"{provider} bills prompts, and no call of this trace has the outline of one: {way}")
    caches: dict[str, Any] = {}
    replayed = simulate(calls, cache_of=lambda name: caches.setdefault(name, host.cache_of(name)), watch=watch)
    return _outcome(provider, servers, replayed, _extra_usd(host, caches, replayed))


def why_no_price(ledger: Ledger, provider: str, model: str | None = None) -> str:
    """Why `replay_hosted` gives no dollars for the same; empty where nothing is missing."""
    calls = [exchange for exchange in ledger if isinstance(exchange.prompt, Outline)]
    vendor = _host(provider, model, None, None).provider
    names = dict.fromkeys(model or exchange.model for exchange in calls)
    if provider in HOSTED and not HOSTED[provider].provider:
        return f"prices of {provider} are not known here"
    missing = [name for name in names if _price(vendor, name, ZERO, calls[-1].at) is None]
    if missing:
        return f"{provider} has no known price for model {', '.join(map(repr, missing[:3]))}: name one that has with --model"
    n_silent = sum(exchange.usage is None or exchange.usage.output is None for exchange in calls)
    return (
        f"{n_silent:,} of {len(calls):,} calls do not say how many tokens were generated, and those cost too"
        if n_silent
        else ""
    )


def _host(provider: str, model: str | None, servers: int | None, per_minute: int | None) -> _Host:
    if provider in _BY_MODEL:
        return _by_model(provider, model, servers, per_minute)
    if provider not in HOSTED:
        raise UsageError(f"{provider!r} is no provider: use one of {', '.join(PROVIDERS)}")
    rule = HOSTED[provider]
    options = {"n_servers": servers, "per_minute": per_minute}
    rule = replace(rule, **{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]

    def cache_of(name: str) -> Any:
        row = MODELS.get(name)
        if row and rule.provider not in ("", _ANY):
            _check_sold(provider, row, rule.provider)
        fitting = replace(rule, min_tokens=row.min_tokens) if row and row.provider == rule.provider else rule
        is_stored = rule.kind == "contents"
        return Contents(fitting.min_tokens, fitting.ttl_seconds) if is_stored else hosted_cache(fitting)

    marks = rule.kind == "breakpoints" or rule.is_opt_in
    offered = rule.ttls_seconds or (rule.ttl_seconds,)
    host = rule.provider or provider
    return _Host(
        host,
        model,
        cache_of,
        lambda exchange, outline: _marked(outline, offered, marks),
        rule.storage_usd_per_mtok_hour,
    )


def _by_model(provider: str, model: str | None, servers: int | None, per_minute: int | None) -> _Host:
    n_servers, limit = servers or 1, _BY_MODEL[provider] if per_minute is None else per_minute

    def cache_of(name: str) -> Any:
        row = _row(provider, name)
        return (
            Routed(lambda: reference_cache(row), head_of, n_servers, per_minute=limit)
            if n_servers > 1
            else reference_cache(row)
        )

    def outline_for(exchange: Exchange, outline: Outline) -> Outline:
        row = _row(provider, model) if model else _recorded(provider, exchange.model)
        is_marked = row.cache != "breakpoints" or outline.breakpoints
        return outline if is_marked else _marked(outline, (row.default_ttl_seconds,), has_marks=True)

    return _Host(provider, model, cache_of, outline_for)


def _row(provider: str, model: str) -> Model:
    row = model_named(model, provider)
    _check_sold(provider, row, provider)
    return row


def _recorded(provider: str, model: str) -> Model:
    """`_row` of a model that nobody named here: the trace did, or named none."""
    if not model:
        raise UnknownModel("this trace names no model", **_named(provider))
    return _row(provider, model)


def _check_sold(provider: str, row: Model, vendor: str) -> None:
    """Raises `UsageError` for a model that nobody can ask there: its bill would be made up."""
    if row.provider not in _SELLS.get(provider, (vendor,)):
        raise UsageError(
            f"{row.name} is a model of {row.provider or 'another provider'}, not of {provider}", **_named(provider)
        )


def _named(provider: str) -> dict[str, str]:
    """What to do where the model is none of the provider's."""
    return {"in_code": f"name one of {provider}'s with model=…", "in_shell": f"name one of {provider}'s with --model"}


def _marked(outline: Outline, offered: tuple[int, ...], has_marks: bool) -> Outline:
    """With lifetimes that are on offer, and a mark at the end where there has to be one."""
    n_segments = outline.keep + len(outline.digests)
    marks = tuple(replace(mark, ttl_seconds=_offered(mark.ttl_seconds, offered)) for mark in outline.breakpoints)
    if has_marks and not marks and n_segments:
        marks = (Breakpoint(n_segments - 1, offered[0]),)
    return replace(outline, breakpoints=marks)


def _offered(ttl_seconds: int, offered: tuple[int, ...]) -> int:
    return next((other for other in offered if other >= ttl_seconds), offered[-1])


def _as_sent(exchange: Exchange, outline: Outline, host: _Host) -> Exchange:
    began = exchange.first_byte_at
    if began is None and exchange.usage is not None:
        began = exchange.ended_at
    outline = host.outline_for(exchange, outline)
    return replace(
        exchange, prompt=outline, provider=host.provider, model=host.name or exchange.model, first_byte_at=began
    )


def _outcome(provider: str, servers: int | None, replayed: Ledger, extra_usd: float | None) -> Outcome:
    total = summarise(replayed).total
    sessions: dict[str, list[Usage]] = {}
    for exchange in replayed:
        sessions.setdefault(exchange.session, []).append(exchange.usage or ZERO)
    counts = {name: _counts(usages) for name, usages in sessions.items()}
    everything = _counts(usage for usages in sessions.values() for usage in usages)
    setting = Setting(provider, "ttl", "", instances=servers or HOSTED.get(provider, _ALONE).n_servers)
    spent = None if total.list_cost_usd is None or extra_usd is None else total.list_cost_usd + extra_usd
    return Outcome(setting, everything, None, counts, spent, total.cost_uncached_usd)


_ALONE = Rule("implicit")


def _extra_usd(host: _Host, caches: dict[str, Any], replayed: Ledger) -> float | None:
    """Dollars for making and storing contents, None where making one has no price."""
    until = max((exchange.ended_at or exchange.at for exchange in replayed), default=0.0)
    extra = 0.0
    for name, client in caches.items():
        if isinstance(client, Contents):
            made = _price(host.provider, name, Usage(client.created_tokens, 0, 0, 0, 0), until)
            if made is None:
                return None
            extra += made + client.storage_usd(until, host.storage_usd_per_mtok_hour)
    return extra


def _price(provider: str, model: str, usage: Usage, at: float) -> float | None:
    try:
        return cost_usd(provider, model, usage, at)
    except UnknownModel:
        return None


def _counts(usages: Iterable[Usage]) -> Counts:
    counted = list(usages)
    return Counts(
        len(counted), None, None, sum(usage.prompt or 0 for usage in counted), sum(usage.read or 0 for usage in counted)
    )
