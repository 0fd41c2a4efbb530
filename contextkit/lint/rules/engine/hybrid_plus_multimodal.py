"""hybrid-plus-multimodal: hybrid models with images find nothing, although their blocks agree.

## What it does
Finds vLLM with models that mix attention and Mamba layers, in conversations whose list of images grows.

## Why it costs you
Hybrid models keep one state per large block (528 tokens and more), and images add their hashes to it. A report saw 0 cached tokens for
equal block hashes as soon as several images were in the prompt: each turn prefilled everything, images included, and short prompts
never hit at all because they fill no block.

## Example
    content.append({"type": "image_url", "image_url": {"url": screenshot}})
    client.chat.completions.create(model="qwen3.5-vl", messages=messages)

## Use instead
A lane for images with a short history, its findings carried over as text, or an engine and model without the limit:

    eyes = Context(vision_provider, system="Describe what stands on the screen.")
    context.result(call, description)

## Detected by
- source: not visible.
- requests: images in an extended conversation on a self-hosted engine, an agreeing start, and 0 cached tokens.
- guard: not before sending; noticed when the bill comes back.
- provider: `prompt_tokens_details.cached_tokens` stays 0.

## References
- https://github.com/vllm-project/vllm/issues/43587
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKE02", "hybrid-plus-multimodal", "A", "warning")
