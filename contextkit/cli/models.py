"""`contextkit models`, and the option `--models` of every command that knows models or prices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from contextkit.errors import UnknownModel, UsageError
from contextkit.facts import load
from contextkit.models import MODELS, SOURCES, Model, assumption, find_model, model_named
from contextkit.terminal import echo, echo_error, sanitize

if TYPE_CHECKING:
    from contextkit.facts.rules import CacheRule

REGISTERING = "To give its own, add a [[models]] row to a TOML file and name the file with --models"
"""What to do about an assumed model, for who typed a command."""


def say_assumed(*rows: Model) -> None:
    """Print one line on standard error for each model whose rules are assumed."""
    for row in rows:
        if row.is_assumed:
            echo_error(f"contextkit: {assumption(row, REGISTERING)}")


def read_models(context: click.Context, option: click.Parameter, path: str | None) -> None:
    """Use the file of `--models`, and read it and the files of the environment and of pyproject.toml: a fault ends with
    exit code 2.
    """
    if path is not None:
        load.use_file(path)
    elif context.parent is None:
        return  # a command that knows models reads the others
    from contextkit.models import read_user_rows
    from contextkit.prices import read_user_prices

    try:
        read_user_rows()
        read_user_prices()
    except UsageError as error:  # of the group itself, before a command runs
        raise click.UsageError(str(error)) from None


def with_models(command: click.Command) -> click.Command:
    """Give a command, and those below it, the option `--models`."""
    if not any("--models" in option.opts for option in command.params):
        command.params.append(models_option())
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_models(inner)
    return command


def models_option() -> click.Option:
    """Make the option `--models`, which every command has that knows models or prices."""
    return click.Option(
        ["--models", "models_file"],
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=read_models,
        help="TOML file of your own models and prices ([[models]], [[prices]]); else CONTEXTKIT_MODELS, else pyproject.toml.",
    )


# contextkit models
# ------------------------------------------------------------------------------------------------------

_COLUMNS = (
    ("provider", "prices are looked up under this id"),
    ("cache", "kind of cache"),
    ("min_tokens", "shorter prefixes are not cached"),
    ("granularity_tokens", "a read is rounded down to a multiple of this"),
    ("ttls_seconds", "lifetimes that can be asked for"),
    ("default_ttl_seconds", "lifetime when none is asked for"),
    ("window_tokens", "largest prompt plus output"),
    ("max_output_tokens", "largest output limit of a request"),
    ("tokenizer", ""),
    ("bytes_per_token", "average, where tokens are estimated"),
    ("tool_prompt_tokens", "system prompt that the provider adds to a request with tools"),
    ("accepts_prefill", "messages may end with an assistant turn"),
    ("accepts_forced_choice", "a tool may be forced"),
    ("accepts_mid_system", "a system message may stand between messages"),
    ("accepts_message_effort", "the effort may change from one message on"),
    ("accepts_custom_tools", "a tool may be called with free text"),
    ("accepts_tool_search", "the model can ask the caller for tools"),
    ("strips_thinking", "earlier thinking leaves the prompt at a new user turn"),
    ("binds_thinking", "returned thinking is checked against what stands before it"),
    ("retired_on", "last day, as announced"),
)
"""(column of a model, its meaning)."""


@click.command(short_help="What is known of models: cache rules, prices, and what is assumed.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Print the cache rules and prices of models, where they come from, and what is assumed and why, also the rules
    of their caches that no provider has published.

    Without NAME: one line for each model with a row. A NAME may be in any spelling (`anthropic/claude-opus-4.5`); one
    without a row gets the rules of its nearest relative, which are assumed. Rows of your own come from a file named
    with `--models`, in CONTEXTKIT_MODELS or in pyproject.toml, and stand before the built-in ones.

    \b
    contextkit models                            every model
    contextkit models claude-haiku-5-5           one model, with sources
    contextkit models gpt-7-foo --json           what is assumed of a new model
    """
    if not names:
        rows = [row for row in MODELS.values() if not row.source.endswith(" PROF")]  # the same rules in a region
        echo(_json([_model_json(row) for row in rows]) if as_json else "\n".join(_table(rows)))
        return
    rows = [_row_of(name) for name in names]
    say_assumed(*rows)
    if as_json:
        echo(_json([_model_json(row) for row in rows]))
    else:
        echo("\n\n".join("\n".join(_lines(row)) for row in rows))


def _row_of(name: str) -> Model:
    row = model_named(name)
    if row.is_assumed and not row.source.startswith("assumed after"):
        import difflib

        close = difflib.get_close_matches(name, MODELS, n=3)
        near = f"; close to it are {', '.join(close)}" if close else "; `contextkit models` lists all"
        raise UsageError(f"no model {sanitize(name[:80])!r}, and none of a related name{near}")
    return row


def _json(value: Any) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def _model_json(row: Model) -> dict[str, Any]:
    sources = {key: SOURCES[key] for key in row.source.split() if key in SOURCES}
    rules = [asdict(rule) for rule in _rules_of(row)]
    hosts = {host: {"name": name, **prices} for host, name, prices in _hosts(row)}
    facts = {"grade": row.grade, "sources": sources, "price": _price_json(row), "hosts": hosts, "rules": rules}
    return {**asdict(row), **facts}


def _rules_of(row: Model) -> list[CacheRule]:
    from contextkit.cache.reference import rules_of

    return rules_of(row)


def _price_json(row: Model) -> dict[str, Any] | None:
    from contextkit.prices import price_origin, price_rows

    listed = find_model(row.name) or row
    try:
        _, tiers = price_rows(row.provider, listed.name, _now())
        origin = price_origin(row.provider, listed.name)
    except UnknownModel:
        return None
    prices = [
        {"above_tokens": max(above, 0)} | {name: round(rate * 1e6, 6) for name, rate in zip(_RATES, rates, strict=True)}
        for above, rates in reversed(tiers)
    ]
    return {"usd_per_million_tokens": prices, **asdict(origin)}


_RATES = ("input", "cache_read", "cache_write_short", "cache_write_long", "output")


def _hosts(row: Model) -> list[tuple[str, str, dict[str, float]]]:
    """Each host that sells a model, its name there, and its prices."""
    from contextkit.prices import prices_at_hosts

    found = prices_at_hosts(row.name, _now())
    return [(host, name, dict(zip(_RATES, rates, strict=True))) for host, (name, rates) in found.items()]


def _now() -> float:
    import time

    return time.time()


def _table(rows: list[Model]) -> Iterator[str]:
    yield f"{'model':<46} {'provider':<11} {'cache':<11} {'min':>7} {'step':>5} {'lifetimes':<12} {'window':>9}  grade"
    for row in rows:
        ttls = " ".join(_lifetime(ttl) for ttl in row.ttls_seconds)
        retired = f", retires {row.retired_on}" if row.retired_on else ""
        yield (
            f"{row.name:<46} {row.provider:<11} {row.cache:<11} {row.min_tokens:>7,} {row.granularity_tokens:>5,} {ttls:<12} "
            f"{row.window_tokens:>9,}  {row.grade}{retired}"
        )


def _lifetime(seconds: int) -> str:
    from contextkit.cache.usage import ttl_name

    return ttl_name(seconds)


def _lines(row: Model) -> Iterator[str]:
    yield f"{row.name}: rules {_origin(row.source, row.date, row.grade)}"
    for name, meaning in _COLUMNS:
        value = getattr(row, name)
        if value == "":
            continue
        assumed = "assumed" if row.is_assumed or name in row.assumed else ""
        yield f"  {name:<23} {_formatted(name, value):<14} {assumed:<8} {meaning}".rstrip()
    if row.note:
        yield f"  note: {row.note}"
    for key in row.source.split():
        if key in SOURCES:
            yield f"  {key}: {SOURCES[key]}"
    for rule in _rules_of(row):
        holds = "holds" if rule.holds else "does not hold"
        yield f"rule {rule.name} {holds}: {_origin(rule.source, rule.date, rule.grade)}"
        yield f"  {rule.statement}"
        if rule.provider != row.provider:
            yield f"  as for {rule.provider}: there is no row for {row.provider}"
        yield f"  for it: {rule.evidence}"
        yield f"  against it: {rule.against}"
        yield f"  if it is wrong: {rule.if_wrong}"
    price = _price_json(row)
    if price is None:
        yield "  no price: tokens are reported without dollars; add a [[prices]] row (docs/reference/models.md)"
        return
    yield f"prices, in dollars for a million tokens: {_origin(price['source'], price['date'], price['grade'])}"
    for tier in price["usd_per_million_tokens"]:
        prices = _rates_text({name: rate for name, rate in tier.items() if name != "above_tokens"})
        above = f"above {tier['above_tokens']:,} tokens: " if tier["above_tokens"] else ""
        yield f"  {above}{prices}"
    if price["note"]:
        yield f"  note: {price['note']}"
    others = [one for one in _hosts(row) if one[0] != row.provider]
    if others:
        yield "prices at other hosts, by genai-prices:"
    yield from (f"  {host} ({name}): {_rates_text(rates)}" for host, name, rates in others)


def _rates_text(rates: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {rate:g}" for name, rate in rates.items())


def _origin(source: str, date: str, grade: str) -> str:
    parts = (source,) if source.startswith("assumed") else (grade, source)
    return ", ".join([*parts, *([f"read {date}"] if date else [])])


def _formatted(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(_lifetime, value))
    if name == "default_ttl_seconds" and isinstance(value, int):
        return _lifetime(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
