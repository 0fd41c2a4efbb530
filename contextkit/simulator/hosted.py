"""A recorded ledger on a hosted provider's cache: what it would have read, and what it would have cost.

Takes a ledger whose prompts are outlines, gives an `Outcome`; knows nothing of files. Blocks are none of the hosted caches' business:
everything is counted in tokens.

Assumed where a trace does not say: a mark stands on the last segment, with the model's own lifetime; a reply began when it ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from contextkit.cache.prompt import Breakpoint
from contextkit.cache.usage import ZERO, Usage
from contextkit.errors import UsageError
from contextkit.ledger.exchange import Exchange, Outline
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.models import Model, model_named
from contextkit.simulator.blocks.caches import Setting
from contextkit.simulator.compare import Counts, Outcome
from contextkit.simulator.simulate import simulate

PROVIDERS = ("anthropic", "openai")
"""Whose caches there are."""


def replay_hosted(ledger: Ledger, provider: str, model: str | None = None) -> Outcome:
    """Send every outlined call of `ledger` to `provider` again, to `model` or else to the model it was sent to.

    Raises `UsageError` where a model is another provider's or no call has an outline, `UnknownModel` for a model without a row.
    """
    asked = Ledger()
    for exchange in ledger:
        if isinstance(exchange.prompt, Outline):
            asked.append(_asked(exchange, exchange.prompt, _row(provider, model or exchange.model)))
    if not len(asked):
        raise UsageError(f"{provider} bills prompts, and no call of this trace has the outline of one: replay it on an engine, as vllm")
    replayed = simulate(asked)
    total = summarise(replayed).total
    sessions: dict[str, list[Usage]] = {}
    for exchange in replayed:
        sessions.setdefault(exchange.session, []).append(exchange.usage or ZERO)
    counts = {name: _counts(usages) for name, usages in sessions.items()}
    everything = _counts(usage for usages in sessions.values() for usage in usages)
    return Outcome(Setting(provider, "ttl", ""), everything, None, counts, total.cost_usd, total.cost_uncached_usd)


def _row(provider: str, model: str) -> Model:
    row = model_named(model)
    if row.provider != provider:
        raise UsageError(f"{model} is a model of {row.provider}, not of {provider}: name one of {provider}'s with --model, or model=")
    return row


def _asked(exchange: Exchange, outline: Outline, model: Model) -> Exchange:
    n_segments = outline.keep + len(outline.digests)
    if model.cache == "breakpoints" and not outline.breakpoints and n_segments:
        outline = replace(outline, breakpoints=(Breakpoint(n_segments - 1, model.default_ttl_seconds),))
    began = exchange.first_byte_at
    if began is None and exchange.usage is not None:
        began = exchange.ended_at
    return replace(exchange, prompt=outline, provider=model.provider, model=model.name, first_byte_at=began)


def _counts(usages: Iterable[Usage]) -> Counts:
    known = list(usages)
    return Counts(len(known), None, None, sum(usage.prompt or 0 for usage in known), sum(usage.read or 0 for usage in known))
