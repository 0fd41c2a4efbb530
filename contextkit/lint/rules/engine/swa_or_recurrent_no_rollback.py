"""swa-or-recurrent-no-rollback: the engine cannot cut its cache back to the shared start.

## What it does
Finds self-hosted models with sliding-window attention or recurrent layers, where any difference before the window makes the engine
compute the prompt from its first token.

## Why it costs you
A full-attention cache can be cut at any token. A window keeps only its last few thousand positions, a recurrent state only the present
one: to go back means to start again. llama.cpp then reports that it processes the full prompt, and one edit near the end of 60,000
tokens costs 60,000 tokens of prefill. An edit that would be cheap on another model is the most expensive one here.

## Example
    messages[-2]["content"] = shorten(messages[-2]["content"])
    client.chat.completions.create(model="gemma-3-27b", messages=messages)

## Use instead
Only append; checkpoints of the state, where the engine keeps them (`--ctx-checkpoints`, `--swa-full` in llama.cpp). A `Context` never
edits what was sent:

    context.notice("The last result was shortened.")

## Detected by
- source: not visible here; the edits that trigger it have rules of their own.
- requests: a change late in a prompt to a model of such a family, a long start that agrees, and next to nothing read of it.
- guard: any change of what was sent to such a model, under the code of that change.
- provider: the engine's log and `timings.cache_n` or `cached_tokens`.

## References
- https://github.com/ggml-org/llama.cpp/issues/21831
- https://github.com/ggml-org/llama.cpp/issues/14157
- https://github.com/SillyTavern/SillyTavern/issues/4611
"""

from __future__ import annotations

import re

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.bills import is_same_request, is_self_hosted, left_by, read, read_of_shared
from contextkit.lint.rules.marks import n_shared

NO_ROLLBACK = re.compile(
    r"(?i)gemma-?[234]|gpt-oss|mamba|jamba|falcon-?h1|qwen-?3[-.]?(?:next|[5-9])|lfm-?2|granite-?4|nemotron-?h|rwkv|kimi-linear"
    r"|minimax-(?:text|m1)|ministral|command-(?:a|r7b)|cohere2|plamo2|olmo-?3|zamba|recurrentgemma|bamba"
)
"""Families whose layers keep a window or a state instead of every position (their model cards and engines' lists of
hybrid models)."""
_LEAST_TOKENS = 2000
_NEARLY_NOTHING = 0.1
_MOST_SECONDS = 600.0


def _starts_again(step: Step) -> Evidence | None:
    if not step.changes or not is_self_hosted(step.after) or not NO_ROLLBACK.search(step.after.exchange.model):
        return None
    seen = read_of_shared(step, n_shared(step))
    if seen is None or seen[1] < _LEAST_TOKENS or seen[0] > _NEARLY_NOTHING * seen[1] or not is_same_request(step):
        return None
    if (
        not 0 <= step.gap_seconds <= _MOST_SECONDS
        or not any(read(sent) for sent in step.earlier)
        or not _was_longer(step, seen[0])
    ):
        return None
    return Evidence(
        f"{seen[1]:,} tokens in front of the change agree and {seen[0]:,} of them were read: the engine cannot go back to "
        "where they end",
        path=step.changes[0].was[0].path if step.changes[0].was else "",
    )


def _was_longer(step: Step, got: int) -> bool:
    """Whether the engine held more before."""
    return max(map(left_by, step.earlier), default=0) > got


HAZARD = Hazard("CKE01", "swa-or-recurrent-no-rollback", "A", "warning", requests=(RequestRule("step", _starts_again),))
