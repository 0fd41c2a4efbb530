"""server-tool-inflation: one bill sums several model calls that a server tool made.

## What it does
Explains reads that exceed the prompt: with a server tool (web search, code execution) one response is the sum of several internal
calls.

## Why it costs you
Each internal call reads the prefix again, and the counters at the top add them up. A read of 400,000 tokens for a prompt of 90,000 is
five calls, not an error and not a saving. Hit rate and cost per turn computed from it are off, and so is a trigger for compaction that
takes the sum for the size of the context.

## Example
    context_size = prompt_tokens(usage)           # input, read and written
    if context_size > 150_000:
        compact()

## Use instead
Take the last internal call where the provider lists them, or count what is sent:

    last = usage.iterations[-1] if usage.iterations else usage
    context_size = prompt_tokens(last)

## Detected by
- source: not visible.
- requests: the read exceeds the prompt, and tools that run at the provider are offered or were used.
- guard: not before sending; such a bill is not compared with the prediction.
- provider: `usage.iterations[]` (beta) and `server_tool_use` show it.

## References
- https://platform.claude.com/docs/en/build-with-claude/context-editing
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.bills import counted, read, uses_server_tools
from contextkit.lint.rules.marks import estimated

_FAR_MORE = 1.8
_LEAST_TOKENS = 2000


def _several_calls(sent: RecordedCall) -> Evidence | None:
    got = read(sent)
    if not got or got < _LEAST_TOKENS or sent.usage is None or not uses_server_tools(sent):
        return None
    expected = estimated(sent)
    if got <= _FAR_MORE * expected:
        return None
    return Evidence(
        f"{got:,} tokens were read for a prompt of about {expected:,}: the bill ({counted(sent.usage):,} in all) sums several "
        "calls that a server tool made",
        path="usage",
    )


HAZARD = Hazard("CKA04", "server-tool-inflation", "D", "note", requests=(RequestRule("call", _several_calls),))
