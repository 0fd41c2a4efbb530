"""thinking-excluded-from-cache: the engine leaves thinking out of its tree, and the template sends it back.

## What it does
Finds a SGLang server that strips thinking tokens from its radix tree while the chat template renders earlier thinking into the prompt.

## Why it costs you
The tree holds the answer without its thinking; the next prompt contains it. Both agree up to the first thinking token and no further,
so each turn prefills everything from there on: in an agent that thinks in its first step, that is nearly the whole conversation, every
time. It also goes the other way round: a template that drops thinking needs exactly such an engine.

## Example
    # server: thinking is kept out of the radix tree; template: preserve_thinking is on
    client.chat.completions.create(
        model=MODEL, messages=messages, extra_body={"chat_template_kwargs": {"preserve_thinking": True}},
    )

## Use instead
Bring template and engine into line: both keep thinking, or neither does:

    kwargs = {"preserve_thinking": False}
    client.chat.completions.create(model=MODEL, messages=messages, extra_body={"chat_template_kwargs": kwargs})

## Detected by
- source: not visible; it stands in the server's start-up options.
- requests: cached tokens stop at the first thinking of the conversation, turn after turn, while the bodies agree.
- guard: not before sending; noticed when the bill comes back.
- provider: `cached_tokens`, with the server's cache report switched on.

## References
- https://github.com/sgl-project/sglang/issues/23315
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKE05", "thinking-excluded-from-cache", "B", "warning")
