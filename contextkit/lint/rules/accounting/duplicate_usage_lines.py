"""duplicate-usage-lines: the same usage stands in several lines of a log and is counted several times.

## What it does
Finds logs in which one call's usage is repeated: Claude Code writes a line per content block with the same figures, Codex repeats its
token count.

## Why it costs you
Nothing is lost from the cache; the sum is wrong. A reply with thinking, text and two tool calls is four lines, so its tokens count four
times: totals are two to four times too high, the reads most of all. The hit rate stays plausible, because it is a ratio, and so the
mistake lives long.

## Example
    total = sum(line["message"]["usage"]["cache_read_input_tokens"] for line in lines if "message" in line)

## Use instead
Count a call once, by its ids, or take differences of a running total. A contextkit ledger holds one row per call:

    calls = {(line["requestId"], line["message"]["id"]): line["message"]["usage"] for line in lines if "requestId" in line}
    total = sum(usage["cache_read_input_tokens"] for usage in calls.values())

## Detected by
- source: a sum of usage fields over the lines of a session file, without a key that removes repetitions.
- requests: the same request and message id, or identical totals, in consecutive rows.
- guard: not affected: it sees each call once.
- provider: silent.

## References
- PyPI claude-session-diagnostics, its parser of session files
- https://github.com/ryoppippi/ccusage (README of its Codex adapter)
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKA02", "duplicate-usage-lines", "C", "note")
