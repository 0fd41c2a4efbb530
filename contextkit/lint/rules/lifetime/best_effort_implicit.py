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
- requests: a common prefix above the model's minimum, a short gap, and no cached tokens.
- guard: not before sending; noticed when the bill comes back.
- provider: silent; OpenAI's diagnosis may say `unavailable`.

## References
- https://github.com/googleapis/python-genai/issues/2064
- https://github.com/0xPlaygrounds/rig/issues/2375
- https://github.com/openai/codex/issues/30425
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKL08", "best-effort-implicit", "A", "note")
