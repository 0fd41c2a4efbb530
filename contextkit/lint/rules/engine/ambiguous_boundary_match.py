"""ambiguous-boundary-match: the same call twice, and a cache that searches for its place by content gives up.

## What it does
Finds engines that look for the boundary of a cached conversation by its content, when the same tool call with the same arguments stands
in it twice.

## Why it costs you
If the boundary is found by searching for the last call rather than by counting, two equal calls make it ambiguous, and a careful
implementation takes no cache at all. From the second identical call on, every turn is prefilled from the start. Reported for one local
server. Identical calls also are a sign that the agent repeats itself, which costs more than the cache.

## Example
    {"name": "read_file", "arguments": {"path": "main.py"}}   # turn 3
    {"name": "read_file", "arguments": {"path": "main.py"}}   # turn 9

## Use instead
Match by position on the engine's side; on the agent's side answer a repeated read with a reference to the first:

    context.result(call, "Unchanged since your earlier read of main.py.")

## Detected by
- source: not visible.
- requests: cached tokens fall to 0 from the call on in which an identical tool call stands twice, on a self-hosted engine.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: `cached_tokens` is 0; no reason is given.

## References
- https://github.com/drumih/turbo-fieldfare/issues/125
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.bills import is_kept, is_self_hosted, read, repeated
from contextkit.lint.rules.marks import n_shared, n_tokens

_LEAST_TOKENS = 500


def _gives_up(step: Step) -> Evidence | None:
    if read(step.after) != 0 or not is_self_hosted(step.after) or not is_kept(step) or not any(map(read, step.earlier)):
        return None
    twin = next(repeated(step.after.blocks), None)
    if twin is None or any(read(sent) and any(repeated(sent.blocks)) for sent in step.earlier):
        return None
    shared = n_tokens(step.after, 0, n_shared(step))
    if shared < _LEAST_TOKENS:
        return None
    return Evidence(
        f"none of {shared:,} tokens that agree was read, since the same tool call stands there twice",
        path=twin[1].path,
        was=twin[0].path,
    )


HAZARD = Hazard("CKE06", "ambiguous-boundary-match", "B", "note", requests=(RequestRule("step", _gives_up),))
