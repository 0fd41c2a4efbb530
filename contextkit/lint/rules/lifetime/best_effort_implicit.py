"""best-effort-implicit: an automatic cache misses although the bytes are equal, because it promises nothing.

## What it does
Finds equal prefixes on a provider whose cache is automatic, billed without cached tokens.

## Why it costs you
Gemini's implicit cache, OpenAI before gpt-5.6 and DeepSeek are best effort: sizes at which nothing hits, boundaries every 128 or 2,048
tokens, prefixes persisted only when a third request shows that they are shared, retention of minutes under load. Several reports found
whole ranges of prompt sizes without a hit. No change in the request is to blame, so the finding is a note.

## Example
    for question in questions:
        client.models.generate_content(model="gemini-3.6-flash", contents=[DOCUMENT, question])

## Use instead
An explicit cache where the saving must be certain; otherwise expect a hit rate, not a hit:

    cache = client.caches.create(model="gemini-3.6-flash", config={"contents": [DOCUMENT], "ttl": "1800s"})
    client.models.generate_content(model="gemini-3.6-flash", contents=question, config={"cached_content": cache.name})

## Detected by
- source: not visible.
- requests: a common prefix twice the model's minimum, a short gap, the same parameters, and no cached tokens.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent; OpenAI's diagnosis may say `unavailable`.

## References
- https://github.com/googleapis/python-genai/issues/2064
- https://github.com/0xPlaygrounds/rig/issues/2375
- https://github.com/openai/codex/issues/30425
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.bills import is_kept, read
from contextkit.lint.rules.marks import n_shared, n_tokens

_MOST_SECONDS = 300.0
_LEAST_TOKENS = 1024
_ON_REQUEST = frozenset({"mistral"})
"""Providers that cache only calls with a `prompt_cache_key`."""


def _missed(step: Step) -> Evidence | None:
    row = step.after.row
    if row.cache == "breakpoints" or not row.provider or read(step.after) != 0 or not is_kept(step):
        return None
    if not 0 < step.gap_seconds <= min(_MOST_SECONDS, row.default_ttl_seconds):
        return None
    shared, least = (
        n_tokens(step.after, 0, n_shared(step)),
        2 * max(row.min_tokens, _LEAST_TOKENS, row.granularity_tokens),
    )
    if shared < least or (row.provider in _ON_REQUEST and not step.after.params.get("prompt_cache_key")):
        return None
    return Evidence(
        f"{shared:,} tokens were sent {step.gap_seconds:,.0f} s before and none was read: this cache promises nothing",
        path=step.after.blocks[0].path,
    )


HAZARD = Hazard("CKL08", "best-effort-implicit", "A", "note", requests=(RequestRule("step", _missed),))
