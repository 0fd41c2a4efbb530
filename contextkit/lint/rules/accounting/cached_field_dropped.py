"""cached-field-dropped: an adapter drops the cached counters, and zero is shown where nothing is known.

## What it does
Finds mappings of a usage that copy input and output only, so that the cached tokens are missing or 0.

## Why it costs you
The cache works and the figures deny it. Time to first token and the invoice say that the prefix was read, the dashboard says 0 %, and
somebody starts to rearrange prompts that were fine. vLLM and SGLang behave alike unless they are started with the option that reports
cached tokens.

## Example
    usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}

## Use instead
Unknown is not zero: keep the fields as they came, or None where none came, as contextkit's `Usage` does:

    usage = {"read": getattr(reply.usage, "cache_read_input_tokens", None), "input": reply.usage.input_tokens}

## Detected by
- source: a mapping built from a usage that names input and output counters and no cached one.
- requests: no cached tokens in any call, though first bytes come as fast as from a warm prefix, where the recording holds the times.
- guard: not before sending; the reply's own usage is read as it came.
- provider: its raw usage holds the counters.

## References
- https://github.com/askalf/dario/issues/1234
- https://github.com/Pasta-Devs/Marinara-Engine/issues/6218
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKA03", "cached-field-dropped", "A", "note")
