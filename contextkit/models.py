"""The one table of models: cache rules, minima and what each model accepts.

Takes a model name, gives its row. A difference between models is a cell here, never a branch elsewhere. Each row carries its source.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Model:
    """What is true of one model."""

    name: str
    """As sent in requests; a dated alias (`claude-opus-4-5-20251101`) has a row of its own."""
    provider: str
    """`anthropic`, `openai`: the id prices are looked up under."""
    cache: str
    """`breakpoints` (writes at marks: Anthropic, OpenAI ≥5.6) or `implicit` (any prefix, rounded down: OpenAI ≤5.5)."""
    min_tokens: int
    """Shorter prefixes are never cached."""
    granularity_tokens: int
    """A read is rounded down to a multiple of this; 1 for breakpoint caches."""
    ttls_seconds: tuple[int, ...]
    """Lifetimes that can be asked for, shortest first; the first is the default unless `default_ttl_seconds` says otherwise."""
    default_ttl_seconds: int
    """Lifetime when none is asked for."""
    window_tokens: int
    """Largest prompt plus output."""
    tokenizer: str
    """`o200k_base`, or `bytes` for an estimate by size."""
    bytes_per_token: float
    """Average for `bytes`, in UTF-8 bytes of text; an estimate."""
    accepts_prefill: bool
    """Whether the messages may end with an assistant turn."""
    accepts_forced_choice: bool
    """Whether `tool_choice` any/tool (required/function) is accepted."""
    accepts_mid_system: bool
    """Whether a system message may stand between messages."""
    strips_thinking: bool
    """Whether earlier thinking leaves the prompt when a new user turn arrives."""
    binds_thinking: bool
    """Whether returned thinking is checked against the conversation before it."""
    confidence: str
    """`DOC`, `SDK`, `ISSUE` or `UNSURE` for the minimum."""
    source: str
    """Where the row comes from."""
