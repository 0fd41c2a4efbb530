"""switch-dependent-history-rewrite: a change of model rewrites the history for one turn, and the next turn restores it.

## What it does
When the model differs from that of the last turn, the replay code converts or strips what the new one may not
understand: reasoning, tool ids, server-tool blocks. The condition holds only for the first call after the switch; the
second sends the original history again.

## Why it costs you
The switch itself costs one cold start, since caches are kept per model. The rewrite costs a second one: what the
first call wrote differs from what the second sends, so its entries (1.25 times the input price on Anthropic) are
never read. On models that bind thinking to its prefix the blocks made on the converted history do not fit the
restored one, which is a 400 or lost reasoning.

## Example
    def replay(history, model, last_model):
        if model != last_model:
            history = [strip_reasoning(message) for message in history]     # a copy, for this call only
        return client.messages.create(model=model, max_tokens=4096, messages=history)

## Use instead
Write the conversion down, and apply it from there on:

    if model != session.model:
        session.history = [strip_reasoning(message) for message in session.history]
        session.model = model                     # both kept together: the next call sends the same
    client.messages.create(model=session.model, max_tokens=4096, messages=session.history)

A contextkit log keeps the reply as received beside its text and calls; what another wire gets of it is a fixed
projection, the same in every request.

## Detected by
- source: a condition on a changed model that strips or converts messages on their way out.
- requests: the history differs in the call that changes the model, and once more in the next one with the model
  unchanged.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI), at the second change; at the first the model
  comes before it.

## References
- https://github.com/openclaw/openclaw/issues/115272
- https://github.com/anomalyco/opencode/issues/32604
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM03", "switch-dependent-history-rewrite", "A", "warning", confirmed_by=("messages_changed", "input_changed"))
