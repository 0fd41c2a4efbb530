"""What was found, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from contextkit.providers.templates.remedies import Remedy
from contextkit.providers.templates.stability import Instability


def to_json(found: Sequence[Instability], n_calls: int) -> str:
    """One object: how many calls were compared, and every finding."""
    return json.dumps(
        {"calls": n_calls, "is_stable": not found, "findings": [asdict(row) for row in found]},
        ensure_ascii=False,
        indent=2,
    )


def to_text(found: Sequence[Instability], n_calls: int) -> str:
    """A paragraph a finding."""
    if not found:
        return f"every prompt of {n_calls} calls is gone on with by the next"
    return "\n\n".join(_paragraph(row) for row in found)


def _paragraph(row: Instability) -> str:
    where = "before the first message" if row.message < 0 else f"in message {row.message}"
    when = f"calls {_listed(row.turns)}: " if row.turns else "not in these calls, but waiting: "
    lost = f"{row.lost_chars:,} characters" + (f" ({row.lost_tokens:,} tokens)" if row.lost_tokens is not None else "")
    lines = [
        f"{row.cause}: {row.why}",
        f"  {when}the prompt is good up to character {row.offset:,} ({where}); {lost} behind it are computed again",
        f"  was {row.was!r}",
        f"  now {row.now!r}",
        *(f"  {_remedy(remedy)}" for remedy in row.remedies),
    ]
    return "\n".join(
        lines if row.remedies else [*lines, "  no option and no single edit of the template was found to help"]
    )


def _remedy(remedy: Remedy) -> str:
    if remedy.kind == "caller":
        return f"do: {remedy.words}"
    changed = remedy.changed_chars
    longer = (
        f"; the last prompt becomes {abs(changed):,} characters {'longer' if changed > 0 else 'shorter'}"
        if changed
        else ""
    )
    return f"helps (rendered again to see): {remedy.words}{longer}"


def _listed(turns: Sequence[int]) -> str:
    shown = ", ".join(map(str, turns[:8]))
    return shown if len(turns) <= 8 else f"{shown} and {len(turns) - 8} more"
