"""A report as one JSON object: everything `Summary` says, each miss with its fix, and what was wrong with the
recordings.

Takes `Contents`, gives text. The fields are listed in docs/report.md.
"""

from __future__ import annotations

from dataclasses import asdict

from contextkit.canonical import Json, canonical, parse
from contextkit.ledger.misses import Miss
from contextkit.report.contents import Contents
from contextkit.report.fixes import fix_of, is_agreed


def document(contents: Contents) -> str:
    """The object, as one line; unknown is null."""
    payload: dict[str, Json] = parse(contents.summary.to_json().encode())
    payload["misses"] = [_miss(contents, miss) for miss in contents.summary.misses]
    payload |= {
        "by": contents.by or None,
        "partial": contents.is_partial,
        "n_faults": contents.n_faults,
        "calls_without_writes": contents.calls_without_writes,
        "calls_without_usage": contents.calls_without_usage,
        "faults": [{"file": file, "line": line or None, "what": what} for file, line, what in contents.faults],
    }
    return canonical(payload).decode()


def _miss(contents: Contents, miss: Miss) -> dict[str, Json]:
    verdict = contents.verdicts.get(miss.index, "")
    return asdict(miss) | {
        "session": contents.sessions.get(miss.index),
        "is_loss": miss.lost_tokens > 0,
        "fix": fix_of(miss.cause).text,
        "verdict": verdict or None,
        "is_agreed": is_agreed(miss.cause, verdict),
    }
