"""Request rules on self-hosted engines (`CKE…`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from contextkit.lint.requests.breakpoints import n_shared, n_tokens
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.requests.usage import (
    is_continuation,
    is_same_request,
    is_self_hosted,
    read_and_shared_tokens,
    read_tokens,
    repeated_tool_calls,
    tokens_left_cached,
)

# CKE01 swa-or-recurrent-no-rollback
# ---------------------------------------------------------------------------------------------------------------------

NO_ROLLBACK = re.compile(
    r"(?i)gemma-?[234]|gpt-oss|mamba|jamba|falcon-?h1|qwen-?3[-.]?(?:next|[5-9])|lfm-?2|granite-?4|nemotron-?h|rwkv|kimi-linear"
    r"|minimax-(?:text|m1)|ministral|command-(?:a|r7b)|cohere2|plamo2|olmo-?3|zamba|recurrentgemma|bamba"
)
"""Families whose layers keep a window or a state instead of every position (their model cards and engines' lists of
hybrid models)."""

_MIN_TOKENS_ROLLBACK = 2000

_NEARLY_NOTHING = 0.1

_MOST_SECONDS = 600.0


def _swa_or_recurrent_no_rollback(step: Step) -> Evidence | None:
    if not step.changes or not is_self_hosted(step.after) or not NO_ROLLBACK.search(step.after.call.model):
        return None
    figures = read_and_shared_tokens(step, n_shared(step))
    if (
        figures is None
        or figures[1] < _MIN_TOKENS_ROLLBACK
        or figures[0] > _NEARLY_NOTHING * figures[1]
        or not is_same_request(step)
    ):
        return None
    if (
        not 0 <= step.gap_seconds <= _MOST_SECONDS
        or not any(read_tokens(sent) for sent in step.earlier)
        or not _was_longer(step, figures[0])
    ):
        return None
    return Evidence(
        f"{figures[1]:,} tokens in front of the change agree and {figures[0]:,} of them were read: the engine cannot go back to "
        "where they end",
        path=step.changes[0].was[0].path if step.changes[0].was else "",
    )


def _was_longer(step: Step, got: int) -> bool:
    """Return whether the engine held more before."""
    return max(map(tokens_left_cached, step.earlier), default=0) > got


# CKE02 hybrid-plus-multimodal
# ---------------------------------------------------------------------------------------------------------------------

_MIN_TOKENS_HYBRID = 1000


def _hybrid_plus_multimodal(step: Step) -> Evidence | None:
    n = _n_images(step.after)
    if n < 2 or not is_self_hosted(step.after) or read_tokens(step.after) != 0 or not is_continuation(step):
        return None
    shared = n_tokens(step.after, 0, n_shared(step))
    hit_before = any(read_tokens(sent) and _n_images(sent) < n for sent in step.earlier)
    if shared < _MIN_TOKENS_HYBRID or not (hit_before or NO_ROLLBACK.search(step.after.call.model)):
        return None
    image = next(block for block in reversed(step.after.blocks) if block.type == "image")
    return Evidence(f"none of {shared:,} tokens that agree was read, with {n} images in the prompt", path=image.path)


def _n_images(sent: RecordedCall) -> int:
    return sum(block.type == "image" for block in sent.blocks)


# CKE03 extra-hash-keys
# ---------------------------------------------------------------------------------------------------------------------

_HASH_KEYS = ("cache_salt", "extra_key", "lora_path", "lora_name", "lora_request", "lora_adapter")
"""Fields of vLLM and SGLang that enter the hash of every block (vLLM's and SGLang's `protocol.py`)."""


def _extra_hash_keys(step: Step) -> Evidence | None:
    key = next((name for name in _HASH_KEYS if _parameter(step.before, name) != _parameter(step.after, name)), None)
    if key is None:
        return None
    return Evidence(
        f"{key} is another one than in the call before: the engine keeps a cache of its own for each value",
        path=key,
        was=_abbreviated(_parameter(step.before, key)),
        now=_abbreviated(_parameter(step.after, key)),
    )


def _parameter(sent: RecordedCall, name: str) -> object:
    return sent.params.get(name)


def _abbreviated(value: object) -> str:
    """A salt may be a secret: how it begins tells two of them apart."""
    text = "" if value is None else str(value)
    return text if len(text) <= 8 else f"{text[:4]}…"


# CKE05 thinking-excluded-from-cache
# ---------------------------------------------------------------------------------------------------------------------

_MIN_TOKENS_THINKING = 1000

_TOLERANCE, _SLACK_TOKENS = 0.15, 64
"""How far a count may be off: templates add words of their own, and engines count in blocks."""


def _thinking_excluded_from_cache(step: Step) -> Evidence | None:
    got = read_tokens(step.after)
    if not got or not is_self_hosted(step.after) or not is_continuation(step):
        return None
    first = next((i for i, block in enumerate(step.before.blocks) if block.type == "thinking"), None)
    if first is None:
        return None
    upto, shared = n_tokens(step.after, 0, first), n_tokens(step.after, 0, n_shared(step))
    slack = _TOLERANCE * upto + _SLACK_TOKENS
    if (
        abs(got - upto) > slack
        or shared - got < max(_MIN_TOKENS_THINKING, slack)
        or not _stopped_there_before(step, upto, slack)
    ):
        return None
    return Evidence(
        f"{got:,} of {shared:,} tokens that agree were read, again no more than what stands before the first thinking",
        path=step.after.blocks[first].path,
    )


def _stopped_there_before(step: Step, upto: int, slack: float) -> bool:
    """Return whether the call before stopped at the same place."""
    got = read_tokens(step.before)
    return got is not None and abs(got - upto) <= slack


# CKE06 ambiguous-boundary-match
# ---------------------------------------------------------------------------------------------------------------------

_MIN_TOKENS_AMBIGUOUS = 500


def _ambiguous_boundary_match(step: Step) -> Evidence | None:
    if (
        read_tokens(step.after) != 0
        or not is_self_hosted(step.after)
        or not is_continuation(step)
        or not any(map(read_tokens, step.earlier))
    ):
        return None
    twin = next(repeated_tool_calls(step.after.blocks), None)
    if twin is None or any(read_tokens(sent) and any(repeated_tool_calls(sent.blocks)) for sent in step.earlier):
        return None
    shared = n_tokens(step.after, 0, n_shared(step))
    if shared < _MIN_TOKENS_AMBIGUOUS:
        return None
    return Evidence(
        f"none of {shared:,} tokens that agree was read, since the same tool call stands there twice",
        path=twin[1].path,
        was=twin[0].path,
    )


RULES: Mapping[str, tuple[RequestRule, ...]] = {
    "CKE01": (RequestRule("step", _swa_or_recurrent_no_rollback),),
    "CKE02": (RequestRule("step", _hybrid_plus_multimodal),),
    "CKE03": (RequestRule("step", _extra_hash_keys),),
    "CKE05": (RequestRule("step", _thinking_excluded_from_cache),),
    "CKE06": (RequestRule("step", _ambiguous_boundary_match),),
}
"""Code → its rules."""
