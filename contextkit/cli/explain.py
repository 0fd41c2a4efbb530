"""Implements `contextkit explain`: what the judge says of one recorded call, and by what."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from contextkit.cli.report import exit_if_incomplete, print_faults
from contextkit.cli.terminal import for_programs
from contextkit.errors import UsageError
from contextkit.ledger.figures import Dollars
from contextkit.terminal import echo, echo_json

if TYPE_CHECKING:
    from contextkit.ledger.misses import AnalyzedCall
    from contextkit.ledger.verdict import Verdict

_WIDTH = 11
"""Characters of the names at the left."""
_WHOSE = {
    "program_bytes": "the program changed bytes that it need not change",
    "program_use": "the program's use of the cache",
    "provider": "the provider had lost what it should have had",
    "unexplained": "nothing recorded explains it",
    "nobody": "nobody's",
}


@click.command("explain")
@click.argument("recording", type=click.Path())
@click.argument("call")
@click.option("--json", "as_json", is_flag=True, help="The verdict as one JSON object.")
def command(recording: str, call: str, as_json: bool) -> None:
    """Explain one call: what it could have read from the cache, what it lost, whose doing that was, and where.

    RECORDING is a file, a folder, a pattern, or - for standard input, in any known format. CALL is its number in the
    report, from 1, or its id.

    \b
    contextkit explain session.jsonl 31
    contextkit explain calls.jsonl msg_01AbC --json
    """
    from contextkit.canonical import canonical
    from contextkit.importers.registry import records_in
    from contextkit.importers.source import Faults
    from contextkit.ledger.misses import analyzed_calls
    from contextkit.ledger.verdict import verdict_json

    if as_json:
        for_programs()
    faults, numbers, found, n_calls = Faults(), dict[str, int](), None, 0
    for analyzed in analyzed_calls(records_in([recording], faults), is_checking=True):
        n_calls = analyzed.index + 1
        if call in (str(n_calls), analyzed.call.id):
            found = analyzed
            break
        numbers[analyzed.call.id] = n_calls
    if found is None:
        raise UsageError(f"{recording} has no call {call}: give a number from 1 to {n_calls:,}, or the id of one")
    if as_json:
        told = verdict_json(found.verdict) if found.verdict else None
        checks = [{"check": gap.kind, "place": gap.place, "evidence": gap.evidence} for gap in found.checks]
        echo_json(canonical({"call": found.call.id, "index": found.index, "verdict": told, "checks": checks}))
    else:
        for line in _lines(found, numbers):
            echo(line)
    print_faults(faults, is_verbose=False)
    exit_if_incomplete(faults)


def _lines(analyzed: AnalyzedCall, numbers: dict[str, int]) -> list[str]:
    call, verdict = analyzed.call, analyzed.verdict
    at = datetime.fromtimestamp(call.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    title = f"call {analyzed.index + 1} · {call.model} · {at}"
    if verdict is None:
        why = "the provider refused it" if call.is_refused else "neither its prompt nor its bill is known"
        return [title, f"nothing can be said of it: {why}"]
    return [f"{title} · prompt {verdict.prompt:,} tokens", *_lengths(verdict, numbers), *_gaps(analyzed, verdict)]


def _lengths(verdict: Verdict, numbers: dict[str, int]) -> list[str]:
    earlier = _named(verdict.earlier_id, numbers)
    over = f"; {verdict.rule_error:,} more were read than the rules let expect" if verdict.rule_error else ""
    if verdict.similar is None:
        return [_row("read", verdict.read, "billed"), "the prompt was not recorded: judged by bills and events"]
    lines = [
        _row("read", verdict.read, "billed" if verdict.read is not None else "no bill"),
        _row("readable", verdict.readable, f"what the cache held under the provider's rules{over}"),
        _row(
            "shared", verdict.shared, "equal to an earlier prompt from its start" if earlier else "with no earlier call"
        ),
        _row("similar", verdict.similar, f"in common with {earlier}, wherever it stands" if earlier else ""),
    ]
    others = [_named(name, numbers) for name in verdict.candidates if name != verdict.earlier_id]
    return [*lines, f"also compared with {', '.join(others)}"] if others else lines


def _gaps(analyzed: AnalyzedCall, verdict: Verdict) -> list[str]:
    from contextkit.ledger.misses import priced_gaps

    lines = []
    for gap, usd in priced_gaps(verdict, analyzed.call):
        cost = "" if usd is None else f", {Dollars(usd)}"
        word = "not read" if not gap.is_avoidable else "lost" if verdict.read is not None else "would lose"
        cause = f"{gap.cause} ({gap.kind})" if gap.kind else gap.cause
        lines.append(f"{word:<{_WIDTH}}{gap.tokens:,} tokens{cost} · {cause} · {_WHOSE[gap.whose]}")
        lines += [f"{'':<{_WIDTH}}{text}" for text in dict.fromkeys((gap.place, gap.evidence)) if text]
        lines += [f"{'':<{_WIDTH}}{side} {text!r}" for side, text in (("was", gap.was), ("now", gap.now)) if text]
    lines += [f"{'check':<{_WIDTH}}{gap.place}: {gap.evidence}" for gap in analyzed.checks]
    if not verdict.is_miss:
        lines.append(
            "no miss: nothing was lost" if not verdict.lost_tokens else "no miss: too little was lost to count"
        )
    return lines


def _named(call_id: str, numbers: dict[str, int]) -> str:
    number = numbers.get(call_id)
    return f"call {number:,}" if number else call_id


def _row(name: str, tokens: int | None, text: str) -> str:
    return f"{name:<{_WIDTH}}{'unknown' if tokens is None else f'{tokens:,}':<11} {text}".rstrip()
