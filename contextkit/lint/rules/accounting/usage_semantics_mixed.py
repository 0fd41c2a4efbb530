"""usage-semantics-mixed: cached tokens are added to an input count that already holds them, or left out of one that does not.

## What it does
Finds sums of input and cached tokens that mix two conventions: Anthropic counts input without what was read or written, OpenAI,
OpenTelemetry and LiteLLM count it with.

## Why it costs you
This breaks no prefix; it makes the figures lie. Adding cached tokens to OpenAI's count bills them twice, so a good hit rate looks like
a rise in cost; dividing reads by Anthropic's input gives hit rates above 100 %. Langfuse, LiteLLM and LangSmith have each shipped that
mistake. Decisions about what to cache were made on such numbers.

## Example
    usage = client.responses.create(model="gpt-6.1-sol", input=history).usage
    total = usage.input_tokens + usage.input_tokens_details.cached_tokens

## Use instead
One normal form for all providers, with an invariant to check it by. In contextkit's `Usage` the parts always add up to the prompt:

    usage = context.ledger[-1].usage
    assert usage.prompt == usage.fresh + usage.read + usage.write_5m + usage.write_1h

## Detected by
- source: an addition of input and cached counters of an OpenAI-shaped usage.
- requests: reads and writes exceed the prompt, or a hit rate is above 100 %.
- guard: not before sending; the usage that comes back is checked.
- provider: silent: its numbers are right.

## References
- https://github.com/langfuse/langfuse/issues/12306
- https://github.com/BerriAI/litellm/issues/26919
- https://github.com/langchain-ai/langsmith-sdk/issues/2519
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKA01", "usage-semantics-mixed", "A", "note")
