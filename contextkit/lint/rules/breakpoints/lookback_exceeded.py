"""lookback-exceeded: more than twenty positions lie between a marker and the last place that was written.

## What it does
Finds turns that append so much (a wide fan-out of tool calls, many small blocks) that the newest marker no longer reaches the entry of
the request before.

## Why it costs you
On Claude a lookup visits the marker's own position and steps back, 20 positions in all; an entry at 15 is out of reach of a marker at
35. What lies further back is found only through an earlier marker with a window of its own. The request then reads at best the head and
pays a write for everything after it. Since September 2026 the Claude API counts a run of consecutive tool calls as one position, and so
a run of results; Qwen's explicit cache has the same 20-block window.

## Example
    # 24 calls, each with its own answer, become one turn: 48 blocks, and one marker at the very end
    messages += [block for call in calls for block in (call_of(call), result_of(call))]
    mark_last(messages)

## Use instead
Keep the marker of the request before as a bridge whenever a turn adds twenty positions or more. `Context` plans it from the positions
it counted:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096), system=SYSTEM, tools=TOOLS)
    for call in context.calls:
        context.result(call, call.run())
    context.request()

## Detected by
- source: not visible; how many blocks a turn adds is known when it runs.
- requests: twenty or more positions appended since the last written one, no marker between, and the read falls back to the head.
- guard: the same, before it is sent.
- provider: silent: the text was only extended, so Anthropic reports no change.

## References
- https://github.com/brightwave-inc/tidebreak/issues/1154
- https://github.com/brightwave-inc/tidebreak/issues/1270
- https://github.com/netease-lcap/wave-agent/issues/1261
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB03", "lookback-exceeded", "A", "warning")
