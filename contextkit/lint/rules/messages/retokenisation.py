"""retokenisation: the ids the model generated are not those its text gives when it is tokenised again.

## What it does
A model running on your own machine emits token ids. The answer is stored as text and tokenised again for the next
request. A tokeniser has one preferred encoding for a text; the model, a grammar or a forced prefix may have produced
another that spells the same characters.

## Why it costs you
Engines compare ids. The cached answer and the replayed one part at the first pair of tokens cut differently, and
everything behind it is prefilled again: time to first token instead of money. Constrained decoding makes it common,
since a mask forbids the token that the tokeniser would have chosen. With blocks of 16 tokens (vLLM's default) one odd
token loses its whole block and all later ones.

## Example
    reply = client.chat.completions.create(
        model="local", messages=messages, response_format={"type": "json_schema", "json_schema": SCHEMA},
    )
    messages.append({"role": "assistant", "content": reply.choices[0].message.content})     # text; its ids are lost

## Use instead
Send ids back where the engine takes them: SGLang has `input_ids`, vLLM returns them with `return_token_ids`.

    ids = ids + reply_ids + tokenizer.encode(next_turn, add_special_tokens=False)
    engine.generate(input_ids=ids)

Otherwise accept that a few tokens at each border are computed again, and keep constrained output short. contextkit
sends text; its models of these engines count the shared ids they are given.

## Detected by
- source: not visible; nothing in the program differs between a text that survives and one that does not.
- requests: not visible; they hold text, and as text the prefix is equal. Token ids are needed to see it.
- guard: not visible, for the same reason.
- provider: silent; engines report a number of cached tokens and no cause.

## References
- https://github.com/ggml-org/llama.cpp/issues/11970
- https://github.com/mdegans/drama_llama/issues/88
- https://github.com/raullenchai/Rapid-MLX/issues/1449
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM16", "retokenisation", "A", "warning")
