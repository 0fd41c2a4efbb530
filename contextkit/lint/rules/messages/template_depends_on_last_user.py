"""template-depends-on-last-user: the chat template renders an old turn differently once a newer user message exists.

## What it does
A template decides by the index of the last user message what older turns look like: think blocks are cut before it,
or an empty one is printed only on the newest turn. The request is the old one plus a tail; the text that the model
sees is not.

## Why it costs you
The engine's cache (vLLM, SGLang, llama.cpp) compares token ids of the rendered prompt. Each user turn changes the
rendering of the turn before, so everything from that answer on is computed again. Templates of Qwen3 do it with
reasoning left in the history, and with `enable_thinking=false`, where the empty block moves along with the newest
turn.

## Example
    # in the chat template, where ns.last_query_index is the last user message
    # {%- if loop.index0 > ns.last_query_index %}<think>{{ reasoning }}</think>{%- endif %}
    client.chat.completions.create(model="qwen3-32b", messages=messages)

## Use instead
A template that renders each turn from that turn alone. Where it is supported, switch the cutting off and send
reasoning back:

    client.chat.completions.create(
        model="qwen3-32b", messages=messages, extra_body={"chat_template_kwargs": {"preserve_thinking": True}},
    )

vLLM shows what was rendered (`/v1/chat/completions/render`, `return_prompt_text`), llama.cpp has `/apply-template`:
render two successive requests and compare them.

## Detected by
- source: not visible; the cause is a template, not Python.
- requests: not visible; the bodies are equal up to their tail, and only the rendered prompts differ.
- guard: not visible, for the same reason.
- provider: silent; engines you run yourself report a number of cached tokens and no cause.

## References
- https://github.com/QwenLM/Qwen3.8/issues/131
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM02", "template-depends-on-last-user", "A", "warning")
