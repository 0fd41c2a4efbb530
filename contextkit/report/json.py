"""A report as one JSON object: everything `Summary` says, each miss with its fix, and what was wrong with the
recordings.

Takes `Contents`, gives text. The fields are listed in docs/reference/report-json.md.
"""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite

from contextkit.canonical import Json, canonical, parse
from contextkit.ledger.misses import Miss
from contextkit.ledger.summary import Row, row_json
from contextkit.report.contents import Contents, Loss, Part, SessionFacts, dearest_losses
from contextkit.report.fixes import fix_of, is_agreed


def document(contents: Contents) -> str:
    """The object, as one line; unknown is null."""
    payload: dict[str, Json] = parse(contents.summary.to_json().encode())
    payload["misses"] = [_miss(contents, miss) for miss in contents.summary.misses]
    payload |= {
        "projects": [_part(part) for part in contents.parts],
        "sessions": [_session(contents, row) for row in contents.session_rows],
        "causes": [_cause(loss) for loss in dearest_losses(contents.summary)],
        "by": contents.by or None,
        "compacting_before_pauses": asdict(contents.pauses) if contents.pauses else None,
        "partial": contents.is_partial,
        "n_faults": contents.n_faults,
        "calls_without_writes": contents.calls_without_writes,
        "calls_without_usage": contents.calls_without_usage,
        "faults": [{"file": file, "line": line or None, "what": what} for file, line, what in contents.faults],
    }
    return canonical(payload).decode()


_UNKNOWN_LOSS: dict[str, Json] = {"lost_tokens": None, "lost_usd": None}


def _part(part: Part) -> dict[str, Json]:
    row, lost = row_json(part.row), part.lost
    about = {"project": part.project or None, "program": part.program or None}
    return (
        row
        | about
        | (_UNKNOWN_LOSS if part.row.has_no_usage else {"lost_tokens": lost.lost_tokens, "lost_usd": lost.cost_usd})
        | {"lost_usd_is_lower_bound": part.is_lost_lower_bound}
    )


def _session(contents: Contents, row: Row) -> dict[str, Json]:
    """The sums of a session, named by its whole id, with what is known of it; `title` is null where it has none."""
    facts = contents.about.get(row.name, SessionFacts())
    started_at = facts.started_at if isfinite(facts.started_at) else None
    texts = {"title": facts.title or None, "program": facts.program or None, "project": facts.project or None}
    return row_json(row) | texts | {"started_at": started_at}


def _cause(loss: Loss) -> dict[str, Json]:
    fix = fix_of(loss)
    return asdict(loss) | {"fix": fix.text, "fix_saves": fix.saves}


def _miss(contents: Contents, miss: Miss) -> dict[str, Json]:
    verdict = contents.verdicts.get(miss.index, "")
    return asdict(miss) | {
        "session": contents.sessions.get(miss.index),
        "is_loss": miss.lost_tokens > 0,
        "fix": fix_of(miss).text,
        "verdict": verdict or None,
        "is_agreed": is_agreed(miss.cause, verdict),
    }
