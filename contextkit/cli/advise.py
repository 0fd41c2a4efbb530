"""`contextkit advise`: what the compactions of a recording were worth, and whether one would pay now."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from contextkit.cli.terminal import for_programs, interruptible
from contextkit.terminal import echo, echo_error, echo_json, sanitize

if TYPE_CHECKING:
    from contextkit.analysis.compactions import Advised, Compaction, Standing
    from contextkit.economics.break_even import Advice

MOST_ROWS = 10
"""Lanes told on a terminal, the last ones where there are more."""


@click.command("advise")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--summary-tokens",
    type=click.IntRange(0),
    default=3_000,
    show_default=True,
    help="What a summary holds; 0 if none is made.",
)
@click.option(
    "--kept-tokens",
    type=click.IntRange(0),
    default=20_000,
    show_default=True,
    help="The tail behind it, where none was made.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def command(paths: tuple[str, ...], summary_tokens: int, kept_tokens: int, as_json: bool) -> None:
    """What the compactions recorded in PATHS cost and saved, and whether one would pay now, or in the next idle window.

    \b
    contextkit advise session.jsonl
    contextkit advise ~/.claude/projects/app --json
    """
    from contextkit.analysis.compactions import advised
    from contextkit.cli.report import exit_if_incomplete
    from contextkit.importers.registry import check_any_read, records_in
    from contextkit.importers.source import Faults
    from contextkit.ledger.misses import analyzed_calls

    faults = Faults()
    with interruptible("advice needs the whole recording; no figures"):
        advice = advised(analyzed_calls(records_in(paths, faults)), summary_tokens, kept_tokens)
    check_any_read(faults)
    if as_json:
        for_programs()
        echo_json(_document(advice))
    else:
        echo(_page(advice))
    for fault in faults.kept:
        echo_error(str(fault))
    exit_if_incomplete(faults)


def _document(advice: Advised) -> str:
    from contextkit.canonical import canonical

    compactions = [{**asdict(one), "net_usd": one.net_usd} for one in advice.compactions]
    return canonical(
        {
            **asdict(advice),
            "compactions": compactions,
            "unknown": list(advice.unknown),
            "standings": [asdict(one) for one in advice.standings],
        }
    ).decode()


def _page(advice: Advised) -> str:
    lines = [line for one in advice.compactions for line in _compaction(one)] or ["no compaction is recorded"]
    left_out = len(advice.standings) - MOST_ROWS
    lines += [line for one in advice.standings[-MOST_ROWS:] for line in _standing(one)]
    lines += [f"and {left_out:,} more lanes: --json has them all"] if left_out > 0 else []
    lines += [f"left out, for want of rules, prices or bills: {', '.join(advice.unknown)}"] if advice.unknown else []
    if advice.compactions:
        lines.append(
            f"assumed: a summary of {advice.summary_tokens:,} tokens, made by a call that repeats the prompt before it; money only"
        )
    return "\n".join(sanitize(line, keep="") for line in lines)


def _compaction(one: Compaction) -> list[str]:
    paid = f"paid after {one.paid_after}" if one.paid_after else "not paid by then"
    full = f" (the window would have been full after {one.full_after})" if one.full_after else ""
    reached = f"; it pays from {one.advice.warm_tokens:,.0f} tokens" if one.advice.warm_tokens else ""
    since = f", reached at call {one.reached_at + 1:,}" if one.reached_at is not None else ""
    money = f"cost ${one.cost_usd:.4f}, saved ${one.saved_usd:.2f} over the {one.turns} calls behind it"
    return [
        f"compaction before call {one.index + 1:,} ({one.model}): {one.before_tokens:,} → {one.after_tokens:,} tokens",
        f"  {money}: {paid}{full}; worth ${one.net_usd:+.2f}",
        f"  the rule, then: {_verdict_line(one.advice)}{reached}{since}",
    ]


def _standing(one: Standing) -> list[str]:
    where = f"now, session {one.session[:12]}" + (f" lane {one.lane}" if one.lane != "main" else "")
    return [
        f"{where} ({one.model}): {one.context_tokens:,} tokens, {one.after_tokens:,} after a rewrite",
        f"  next call warm: {_verdict_line(one.advice)}",
        f"  next call cold: {_verdict_line(one.advice_cold)}",
        f"  idle: {one.sleep.reason}",
    ]


def _verdict_line(advice: Advice) -> str:
    return f"{advice.verdict}: {advice.reason}"
