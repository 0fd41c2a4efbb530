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
- requests: twenty or more positions between the last written block and the next marker, none of an older entry nearer.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent: the text was only extended, so Anthropic reports no change.

## References
- https://github.com/brightwave-inc/tidebreak/issues/1154
- https://github.com/brightwave-inc/tidebreak/issues/1270
- https://github.com/netease-lcap/wave-agent/issues/1261
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.marks import LOOKBACK, distance, has_markers, is_reached, marks_of, n_tokens, reach

_LEAST_TOKENS = 100


def _out_of_reach(step: Step) -> Evidence | None:
    if not has_markers(step.after):
        return None
    seen = reach(step)
    marks = [mark for mark in marks_of(step.after) if mark.index >= seen.last]
    if (
        seen.last < 0
        or seen.best >= seen.last
        or not marks
        or any(is_reached(step.after, mark.index, seen.last) for mark in marks)
    ):
        return None
    lost = n_tokens(step.after, seen.best + 1, seen.last + 1)
    if lost < _LEAST_TOKENS or n_tokens(step.after, 0, seen.last + 1) < step.after.row.min_tokens:
        return None
    near = marks[0]
    away = distance(step.after, seen.last, near.index)
    return Evidence(
        f"the nearest marker stands {away} positions behind what the call before wrote, a lookup visits {LOOKBACK}: {lost:,} tokens out of "
        "reach",
        path=near.path,
        was=step.after.blocks[seen.last].path,
        now=step.after.blocks[near.index].path,
    )


HAZARD = Hazard("CKB03", "lookback-exceeded", "A", "warning", requests=(RequestRule("step", _out_of_reach),))
