"""A recorded ledger on a hosted provider's cache: what it would have read, and what it would have cost.

Blocks are none of the hosted caches' business: everything is counted in tokens. `anthropic` and `openai` follow the row
of each call's model; every other name is a row of `cache.hosted.rules`.

Assumed where a trace does not say: a mark stands on the last segment, with the shortest lifetime on offer; a mark that
asks for a lifetime nobody offers there gets the next longer one; a host that is asked to cache by a key is asked; calls
are routed by what they begin with; a reply began when it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from contextkit.cache.hosted.hosted_cache import hosted_cache
from contextkit.cache.hosted.rules import HOSTED
from contextkit.cache.prompt import Breakpoint
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import ZERO, Usage
from contextkit.engines.compare import Counts, Outcome
from contextkit.engines.simulate import Watch, simulate
from contextkit.engines.trace_engines import Setting
from contextkit.errors import UnknownModel, UsageError
from contextkit.ledger.calls import BlockIds, ModelCall, Outline, Tokens
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.models import MODELS, Model, model_named
from contextkit.prices import cost_usd

_OPEN = ("deepseek", "mistral", "moonshotai", "zai")
"""Whose models others may serve."""
_BY_MODEL = ("anthropic", "openai")
"""Providers whose models each have rules of their own."""
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
    outline_for: Callable[[ModelCall, Outline], Outline]
    """A prompt as this provider would have been sent it."""


def replay_hosted(
    ledger: Ledger,
    provider: str,
    model: str | None = None,
    *,
    watch: Watch = iter,
) -> Outcome:
    """Send every outlined call of `ledger` to `provider` again, to `model` or else to the model it was sent to.

    Where `watch` stops, the figures are those of the calls before. Raises `UsageError` where
    there is no such provider, a model is another one's or no call has an outline, `UnknownModel` for a model that has
    to have a row and has none.
    """
    host = _host(provider, model)
    calls = Ledger()
    for call in ledger:
        if isinstance(call.prompt, Outline):
            began = call.first_byte_at
            if began is None and call.usage is not None:
                began = call.ended_at
            outline, name = host.outline_for(call, call.prompt), host.name or call.model
            calls.append(replace(call, prompt=outline, provider=host.provider, model=name, first_byte_at=began))
    if not len(calls):
        has_ids = any(isinstance(call.prompt, BlockIds | Tokens) for call in ledger)
        way = "replay it on an engine, as vllm" if has_ids else "contextkit whatif FILE works with bodies and bills"
        raise UsageError(f"{provider} bills prompts, and no call of this trace has the outline of one: {way}")
    replayed = simulate(calls, cache_of=host.cache_of, watch=watch)
    total = summarise(replayed).total
    usages = [call.usage or ZERO for call in replayed]
    n_tokens, n_read = sum(usage.prompt or 0 for usage in usages), sum(usage.read or 0 for usage in usages)
    setting = Setting(provider, "ttl", instances=HOSTED[provider].n_servers if provider in HOSTED else 1)
    counts = Counts(len(usages), None, None, n_tokens, n_read)
    return Outcome(setting, counts, None, total.list_cost_usd, total.cost_uncached_usd)


def why_no_price(ledger: Ledger, provider: str, model: str | None) -> str:
    """Why `replay_hosted` gives no dollars for the same; empty where nothing is missing."""
    calls = [call for call in ledger if isinstance(call.prompt, Outline)]
    vendor = _host(provider, model).provider
    names = dict.fromkeys(model or call.model for call in calls)
    if provider in HOSTED and not HOSTED[provider].provider:
        return f"prices of {provider} are not known here"
    missing = [name for name in names if _price(vendor, name, ZERO, calls[-1].at) is None]
    if missing:
        return f"{provider} has no known price for model {', '.join(map(repr, missing[:3]))}: name one that has with --model"
    n_silent = sum(call.usage is None or call.usage.output is None for call in calls)
    if not n_silent:
        return ""
    return f"{n_silent:,} of {len(calls):,} calls do not say how many tokens were generated, and those cost too"


def _host(provider: str, model: str | None) -> _Host:
    if provider in _BY_MODEL:
        return _by_model(provider, model)
    if provider not in HOSTED:
        raise UsageError(f"{provider!r} is no provider: use one of {', '.join(PROVIDERS)}")
    rule = HOSTED[provider]

    def cache_of(name: str) -> Any:
        row = MODELS.get(name)
        if row and rule.provider not in ("", _ANY):
            _check_sold(provider, row, rule.provider)
        has_own_minimum = row and row.provider == rule.provider
        return hosted_cache(replace(rule, min_tokens=row.min_tokens) if row and has_own_minimum else rule)

    marks = rule.kind == "breakpoints" or rule.is_opt_in
    offered = rule.ttls_seconds or (rule.ttl_seconds,)
    host = rule.provider or provider
    return _Host(host, model, cache_of, lambda call, outline: _marked(outline, offered, marks))


def _by_model(provider: str, model: str | None) -> _Host:
    def outline_for(call: ModelCall, outline: Outline) -> Outline:
        if not (model or call.model):
            raise UnknownModel("this trace names no model", **_named(provider))
        row = _row(provider, model or call.model)
        is_marked = row.cache != "breakpoints" or outline.breakpoints
        return outline if is_marked else _marked(outline, (row.default_ttl_seconds,), has_marks=True)

    return _Host(provider, model, lambda name: reference_cache(_row(provider, name)), outline_for)


def _row(provider: str, model: str) -> Model:
    row = model_named(model, provider)
    _check_sold(provider, row, provider)
    return row


def _check_sold(provider: str, row: Model, vendor: str) -> None:
    """Raises `UsageError` for a model that nobody can ask there: its bill would be made up."""
    if row.provider not in _SELLS.get(provider, (vendor,)):
        raise UsageError(
            f"{row.name} is a model of {row.provider or 'another provider'}, not of {provider}", **_named(provider)
        )


def _named(provider: str) -> dict[str, str]:
    """Return the remedy for a model that is none of the provider's."""
    return {"in_code": f"name one of {provider}'s with model=…", "in_shell": f"name one of {provider}'s with --model"}


def _marked(outline: Outline, offered: tuple[int, ...], has_marks: bool) -> Outline:
    """With lifetimes that are on offer, and a mark at the end where there has to be one."""
    n_segments = outline.keep + len(outline.digests)
    marks = []
    for mark in outline.breakpoints:
        ttl_seconds = next((seconds for seconds in offered if seconds >= mark.ttl_seconds), offered[-1])
        marks.append(replace(mark, ttl_seconds=ttl_seconds))
    if has_marks and not marks and n_segments:
        marks = [Breakpoint(n_segments - 1, offered[0])]
    return replace(outline, breakpoints=tuple(marks))


def _price(provider: str, model: str, usage: Usage, at: float) -> float | None:
    try:
        return cost_usd(provider, model, usage, at)
    except UnknownModel:
        return None
