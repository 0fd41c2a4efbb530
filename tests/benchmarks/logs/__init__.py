"""Recordings of every format that `reading.py` measures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.logs.agents import codex, ledger, ledger_bills, pi
from tests.benchmarks.logs.bodies import har, openai_pairs, raw_pairs, raw_pairs_single, raw_pairs_spaced
from tests.benchmarks.logs.tracers import langfuse, litellm, litellm_bodies, otlp, otlp_content
from tests.benchmarks.logs.traces import agent_traces, mooncake, openai_runs, openrouter
from tests.benchmarks.logs.turns import Words

__all__ = ["LOGS", "Words"]

LOGS: dict[str, Callable[[Path, int, Words], None]] = {
    made.__name__: made
    for made in (
        raw_pairs,
        raw_pairs_spaced,
        raw_pairs_single,
        openai_pairs,
        har,
        otlp,
        otlp_content,
        litellm,
        litellm_bodies,
        langfuse,
        codex,
        pi,
        ledger,
        ledger_bills,
        openrouter,
        agent_traces,
        openai_runs,
        mooncake,
    )
}
"""Name → what writes files of it into a folder."""
