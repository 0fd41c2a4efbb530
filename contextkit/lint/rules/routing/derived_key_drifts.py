"""derived-key-drifts: a router derives its key from the first messages, and those change.

## What it does
Finds conversations without an explicit id behind a router that hashes the opening messages, when these are rewritten: by a compaction,
a filled-in macro, a date.

## Why it costs you
OpenRouter, when it is given no id, hashes account, model and the start of the conversation; many self-hosted routers do the same. A
compaction replaces exactly that start. It costs a rewrite by itself; with a derived key the conversation also moves to another host, so
that the head it still shares with the past (tools, system) is cold too.

## Example
    history = [summary_message, *history[-6:]]
    client.chat.completions.create(model=MODEL, messages=history)

## Use instead
Send an id that is independent of the text:

    client.chat.completions.create(model=MODEL, messages=history, extra_body={"session_id": session})
    context.compact(summary, keep_from=entry)

## Detected by
- source: not visible on its own; that no id is sent is `cache-key-missing`.
- requests: through an aggregator and without an id, the system text or the first message differs from the call
  before.
- guard: the same, before it is sent.
- provider: silent.

## References
- https://github.com/guanyilun/agent-sh/issues/245
- https://github.com/SillyTavern/SillyTavern/issues/5889
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.settings import has_new_opening, is_aggregated, is_other_model, moved, route_key


def _derived(step: Step) -> Evidence | None:
    """The opening that an aggregator hashes differs, no id is sent, and where a host was recorded it is another one."""
    if not is_aggregated(step.after) or is_other_model(step) or route_key(step.after) or not has_new_opening(step):
        return None
    host = moved(step)
    if host is not None:
        return host.evidence(
            f"the opening changed without a session id, and {host.now} serves the call instead of {host.was}"
        )
    return Evidence("the opening changed, and without a session id the route is derived from it", path="session_id")


HAZARD = Hazard("CKR07", "derived-key-drifts", "A", "warning", requests=(RequestRule("step", _derived),))
