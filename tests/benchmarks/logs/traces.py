"""What has no bill, or nothing but one: OpenRouter's records, LMCache's agent traces, runs in OpenAI's format,
Mooncake's blocks.

Takes a folder, a size and words, writes files. Fields are those of the public samples; what they hold is drawn anew for
each row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from tests.benchmarks.logs.turns import START, Json, Words, compact, when

PREAMBLE = 6_000
"""Characters of a system text."""


def _write(path: Path, n_bytes: int, rows: Iterator[Json]) -> None:
    with path.open("wb") as file:
        while file.tell() < n_bytes:
            file.write(compact(next(rows)) + b"\n")


def openrouter(folder: Path, n_bytes: int, words: Words) -> None:
    """A generation record a line, as `GET /api/v1/generation` gives them."""

    def rows() -> Iterator[Json]:
        for number in count():
            sent = words.random.randint(2_000, 90_000)
            cached = sent - words.random.randint(100, 1_900)
            data = {
                "id": f"gen-{words.id(20)}",
                "upstream_id": f"chatcmpl-{words.id(20)}",
                "total_cost": 0.0015,
                "cache_discount": None,
                "upstream_inference_cost": 0.0012,
                "created_at": when(START + 7 * number),
                "model": "openai/gpt-4o",
                "app_id": 12345,
                "streamed": True,
                "cancelled": False,
                "provider_name": "OpenAI",
                "latency": 1250,
                "moderation_latency": 50,
                "generation_time": 1200,
                "finish_reason": "stop",
                "native_finish_reason": "stop",
                "tokens_prompt": sent,
                "tokens_completion": 250,
                "native_tokens_prompt": sent,
                "native_tokens_completion": 250,
                "native_tokens_reasoning": 5,
                "native_tokens_cached": cached,
                "num_media_prompt": 1,
                "num_search_results": 5,
                "origin": "https://openrouter.ai/",
                "usage": 0.0015,
                "is_byok": False,
                "session_id": f"trip-{number // 40}",
            }
            yield {"data": data}

    _write(folder / "generations.jsonl", n_bytes, rows())


def agent_traces(folder: Path, n_bytes: int, words: Words) -> None:
    """Prompts that grow as text, the sessions one after the other."""

    def rows() -> Iterator[Json]:
        for number in count():
            said, session = words.some(PREAMBLE, PREAMBLE + 2_000), words.id(32)
            for turn in range(30):
                output = words.some(100, 2_000)
                at = int((START + number * 4_000 + turn * 30) * 1e6)
                yield {"timestamp": at, "input": said, "output": output, "session_id": session}
                said += f"\n\n{output}\n\n{words.some(200, 6_000)}"

    _write(folder / "traces.jsonl", n_bytes, rows())


def openai_runs(folder: Path, n_bytes: int, words: Words) -> None:
    """A run a line, as tau-bench keeps them: a system text, then a customer, tool calls and their results."""

    def messages() -> Iterator[Json]:
        yield {"role": "system", "content": words.some(PREAMBLE, PREAMBLE + 500)}
        for turn in range(12):
            call = {
                "id": f"call_{words.id(24)}",
                "type": "function",
                "function": {"name": "find", "arguments": words.some(20, 90)},
            }
            yield {"role": "user", "content": words.some(40, 300)}
            yield {"role": "assistant", "content": None, "tool_calls": [call], "function_call": None}
            yield {"role": "tool", "tool_call_id": call["id"], "name": "find", "content": words.some(100, 1_500)}
            yield {"role": "assistant", "content": words.some(60, 600), "tool_calls": None, "turn": turn}

    def rows() -> Iterator[Json]:
        for number in count():
            yield {
                "task_id": number,
                "reward": 1.0,
                "info": {"task": {"user_id": words.id(12)}},
                "traj": [*messages()],
                "trial": 0,
            }

    _write(folder / "runs.jsonl", n_bytes, rows())


def mooncake(folder: Path, n_bytes: int, words: Words) -> None:
    """Requests as hashes of blocks, a beginning shared by many."""

    def rows() -> Iterator[Json]:
        for number in count():
            n = words.random.randint(4, 60)
            ids = [*range(n // 2), *range(number * 100, number * 100 + n - n // 2)]
            yield {"timestamp": number * 900, "input_length": 512 * n, "output_length": 300, "hash_ids": ids}

    _write(folder / "trace.jsonl", n_bytes, rows())
