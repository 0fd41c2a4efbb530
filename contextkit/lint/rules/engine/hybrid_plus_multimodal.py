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
- requests: two images and more in an extended conversation on a self-hosted engine, and 0 cached tokens.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: `cached_tokens` stays 0.

## References
- https://github.com/vllm-project/vllm/issues/43587
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.bills import is_kept, is_self_hosted, read
from contextkit.lint.rules.engine.swa_or_recurrent_no_rollback import NO_ROLLBACK
from contextkit.lint.rules.marks import n_shared, n_tokens

_LEAST_TOKENS = 1000


def _nothing_with_images(step: Step) -> Evidence | None:
    n = _n_images(step.after)
    if n < 2 or not is_self_hosted(step.after) or read(step.after) != 0 or not is_kept(step):
        return None
    shared = n_tokens(step.after, 0, n_shared(step))
    hit_before = any(read(sent) and _n_images(sent) < n for sent in step.earlier)
    if shared < _LEAST_TOKENS or not (hit_before or NO_ROLLBACK.search(step.after.exchange.model)):
        return None
    image = next(block for block in reversed(step.after.blocks) if block.type == "image")
    return Evidence(f"none of {shared:,} tokens that agree was read, with {n} images in the prompt", path=image.path)


def _n_images(sent: RecordedCall) -> int:
    return sum(block.type == "image" for block in sent.blocks)


HAZARD = Hazard(
    "CKE02", "hybrid-plus-multimodal", "A", "warning", requests=(RequestRule("step", _nothing_with_images),)
)
