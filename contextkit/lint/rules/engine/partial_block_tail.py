"""partial-block-tail: the last, incomplete block is computed again, as it must be.

## What it does
Explains small misses that are none: an engine re-uses whole blocks, so the tail of a prompt that fills no block is always prefilled.

## Why it costs you
vLLM's blocks hold 16 tokens by default (528 and more on hybrid models), others count in units of 64, 128 or 256; llama.cpp always runs
the last token again. The miss is smaller than a block per call, which is nothing for a long prompt and everything for one shorter than
a block. Reporting it would send people after a few tokens, so contextkit models it and reports nothing.

## Example
    usage.prompt_tokens     # 10_007
    details.cached_tokens   # 10_000: 625 blocks of 16

## Use instead
Nothing. The reference cache takes the block size as an argument, so that prediction and bill agree:

    simulate(ledger, BlockCache(Shape(n_blocks=4096)))

## Detected by
- source: not visible.
- requests: not reported: a miss below the block size is expected.
- guard: not reported.
- provider: `cached_tokens` is the prompt's length rounded down to blocks.

## References
- https://github.com/panbanda/higgs/issues/256
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKE04", "partial-block-tail", "B", "note")
