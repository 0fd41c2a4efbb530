"""A replay with its large results kept in files, beside the plain one: what the windows held, what was billed, what
came back.

Takes the two conversations with their ledgers, gives figures. The model's turns are the recorded ones: it said them
having seen the results whole, and so it never reads one back. What is measured is bytes and bills, not whether it would
have answered the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from contextkit.canonical import parse
from contextkit.context import Context
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.log.entry import Entry
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory import Memory
from contextkit.memory.offload import Offload
from contextkit.memory.reference import references_of

Replayed = tuple[Context, Ledger]
"""A conversation, and every call with its bill."""
PREVIEW_SHARE = 5
"""A preview is at most the fifth part of the smallest result it stands for, and never more than `Offload` shows by
itself."""


@dataclass(frozen=True, slots=True)
class Windows:
    """What one replay sent."""

    calls: int
    """How many were billed."""
    window_tokens: int
    """Input tokens of all calls: the window, summed over the calls."""
    largest_tokens: int
    """The largest window of a call."""
    cost_usd: float | None
    """What they cost at list prices; None where the model has none."""
    n_misses: int
    """Calls that lost something they could have read."""


@dataclass(frozen=True, slots=True)
class Offloading:
    """The two beside one another."""

    plain: Windows
    """Every result in the window."""
    offloaded: Windows
    """Large ones in files."""
    n_results: int
    """Results said."""
    n_offloaded: int
    """Those of them that went to files, in part at least."""
    n_bytes: int
    """What went there."""
    n_restored: int
    """Results that come back exactly as the plain conversation has them; all of them, or something is broken."""


@contextmanager
def memory_at(folder: str | None, above_tokens: int) -> Iterator[Memory]:
    """A memory in `folder`, or in one that is gone afterwards."""
    rule = Offload(above_tokens, max(1, min(above_tokens // PREVIEW_SHARE, Offload().preview_tokens)))
    with TemporaryDirectory(ignore_cleanup_errors=True) as passing:
        yield Memory(FileMemory(folder or passing), offload=rule, todo=None, recitation=None, has_file_tool=False)


def compared(plain: Replayed, offloaded: Replayed) -> Offloading:
    """The figures of two replays of one recording; every result of the second is restored and compared with the first."""
    pairs = [(one, other) for one, other in zip(plain[0].log, offloaded[0].log, strict=True) if one.kind == "result"]
    kept = [list(references_of(other)) for _, other in pairs]
    restored = sum(_content(one) == offloaded[0].restore(other) for one, other in pairs)
    n_bytes = sum(reference.n_bytes for references in kept for reference in references)
    return Offloading(windows(plain[1]), windows(offloaded[1]), len(pairs), sum(map(bool, kept)), n_bytes, restored)


def windows(ledger: Ledger) -> Windows:
    """What the calls of a ledger held."""
    summary = summarise(ledger)
    sizes = [exchange.usage.prompt or 0 for exchange in ledger if exchange.usage is not None]
    return Windows(len(sizes), sum(sizes), max(sizes, default=0), summary.cost_usd, len(summary.losses))


def shown(found: Offloading) -> str:
    """As a small table."""
    one, other = found.plain, found.offloaded
    rows = [
        ("", "as recorded", "offloaded", ""),
        (
            "window, all calls",
            f"{one.window_tokens:,}",
            f"{other.window_tokens:,}",
            _change(one.window_tokens, other.window_tokens),
        ),
        (
            "window, largest",
            f"{one.largest_tokens:,}",
            f"{other.largest_tokens:,}",
            _change(one.largest_tokens, other.largest_tokens),
        ),
        ("bill", _dollars(one.cost_usd), _dollars(other.cost_usd), _change(one.cost_usd, other.cost_usd)),
        ("misses", str(one.n_misses), str(other.n_misses), ""),
    ]
    said = f"{found.n_results} results, {found.n_offloaded} of them in files ({found.n_bytes:,} bytes): "
    table = "\n".join(f"{name:<18}{left:>14}{right:>14}{change:>10}".rstrip() for name, left, right, change in rows)
    return f"{table}\n{said}{found.n_restored} of {found.n_results} restored byte for byte"


def _content(entry: Entry) -> list[object]:
    return list(parse(entry.body)["content"])


def _dollars(cost: float | None) -> str:
    return "no price" if cost is None else f"${cost:,.2f}"


def _change(before: float | None, after: float | None) -> str:
    return f"{after / before - 1:+.1%}".replace("-", "−") if before and after is not None else ""
