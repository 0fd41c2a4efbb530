"""What agents write of themselves: Codex, pi, and our own ledgers.

Takes a folder, a size and words, writes files.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.logs.turns import MODEL, TURNS, Json, Turn, Words, compact, turns, when


def _text_of(turn: Turn) -> str:
    first = turn.result["content"][0]
    return str(first.get("text") or first["content"])


def codex(folder: Path, n_bytes: int, words: Words) -> None:
    """A rollout a session."""
    totals: dict[str, list[int]] = {}
    written, made = 0, turns(words)
    while written < n_bytes:
        turn = next(made)
        count = totals.setdefault(turn.session, [0, 0, 0])
        cached, new = turn.usage["cache_read_input_tokens"], turn.usage["cache_creation_input_tokens"]
        for i, more in enumerate((cached + new, cached, 300)):
            count[i] += more
        rows: list[Json] = []
        if turn.number == 0:
            rows.append(
                {
                    "type": "session_meta",
                    "payload": {
                        "id": turn.session,
                        "cwd": "~/work",
                        "originator": "codex_cli_rs",
                        "model_provider": "openai",
                        "instructions": words.some(5000, 9000),
                    },
                }
            )
            rows.append(
                {"type": "turn_context", "payload": {"cwd": "~/work", "model": "gpt-5.1-codex", "effort": "medium"}}
            )
        rows.append(
            {
                "type": "response_item",
                "payload": {
                    "type": "function_call_output",
                    "call_id": "call_" + words.id(24),
                    "output": json.dumps(
                        {"output": _text_of(turn), "metadata": {"exit_code": 0, "duration_seconds": 0.4}}
                    ),
                },
            }
        )
        rows.append({"type": "event_msg", "payload": {"type": "agent_reasoning", "text": words.some(50, 300)}})
        rows.append(
            {
                "type": "response_item",
                "payload": {"type": "reasoning", "summary": [], "content": None, "encrypted_content": words.id(1800)},
            }
        )
        rows.append(
            {
                "type": "response_item",
                "payload": {"type": "function_call", "name": "shell", "arguments": words.some(50, 800), "call_id": "x"},
            }
        )
        spent = dict(zip(("input_tokens", "cached_input_tokens", "output_tokens"), count, strict=True))
        last = {"input_tokens": cached + new, "cached_input_tokens": cached, "output_tokens": 300}
        info = {
            "total_token_usage": {**spent, "reasoning_output_tokens": 0},
            "last_token_usage": {**last, "reasoning_output_tokens": 0},
        }
        rows.append(
            {
                "type": "event_msg",
                "payload": {"type": "token_count", "info": info, "rate_limits": {"primary": {"used_percent": 3.0}}},
            }
        )
        path = folder / f"rollout-{turn.session}.jsonl"
        with path.open("ab") as file:
            for number, row in enumerate(rows):
                file.write(compact({"timestamp": when(turn.at + number), **row}) + b"\n")
            written += file.tell() if turn.number == TURNS - 1 else 0


def pi(folder: Path, n_bytes: int, words: Words) -> None:
    """A session a file."""
    written, made = 0, turns(words)
    while written < n_bytes:
        turn = next(made)
        rows: list[Json] = []
        if turn.number == 0:
            rows.append(
                {
                    "type": "session",
                    "id": turn.session,
                    "timestamp": when(turn.at),
                    "cwd": "~/work",
                    "provider": "anthropic",
                    "modelId": MODEL,
                    "thinkingLevel": "off",
                }
            )
            rows.append(
                {"type": "message", "timestamp": when(turn.at), "message": {"role": "user", "content": _text_of(turn)}}
            )
        else:
            rows.append(
                {
                    "type": "message",
                    "timestamp": when(turn.at),
                    "message": {
                        "role": "toolResult",
                        "toolCallId": turn.result["content"][0]["tool_use_id"],
                        "toolName": "read",
                        "isError": False,
                        "content": [{"type": "text", "text": _text_of(turn)}],
                    },
                }
            )
        usage = {
            "input": 4,
            "output": 300,
            "cacheRead": turn.usage["cache_read_input_tokens"],
            "cacheWrite": turn.usage["cache_creation_input_tokens"],
            "cost": {"input": 0.1, "output": 0.2, "total": 0.3},
        }
        call = {"type": "toolCall", "id": turn.reply[1]["id"], "name": "read", "arguments": turn.reply[1]["input"]}
        rows.append(
            {
                "type": "message",
                "timestamp": when(turn.at + turn.took),
                "message": {
                    "role": "assistant",
                    "content": [turn.reply[0], call],
                    "api": "anthropic-messages",
                    "provider": "anthropic",
                    "model": MODEL,
                    "usage": usage,
                    "stopReason": "toolUse",
                    "timestamp": int(turn.at * 1000),
                },
            }
        )
        with (folder / f"{turn.session}.jsonl").open("ab") as file:
            for row in rows:
                file.write(compact(row) + b"\n")
            written += file.tell() if turn.number == TURNS - 1 else 0


def ledger(folder: Path, n_bytes: int, words: Words) -> None:
    """Ours, prompts as outlines of one segment a message."""
    from contextkit.cache.usage import Usage
    from contextkit.ledger.calls import ModelCall, Outline, encode
    from contextkit.ledger.ledger import HEADER

    with (folder / "ledger.jsonl").open("wb") as file:
        file.write(HEADER)
        for turn in turns(words):
            keep = 0 if turn.number == 0 else 12 + 2 * turn.number
            new = range(16 if turn.number == 0 else 2)
            outline = Outline(
                keep,
                (words.id(), words.id(), words.id()),
                (12, 14),
                tuple(words.id() for _ in new),
                tuple(900 * (keep + i) for i in new),
                tuple(keep + i for i in new),
                tuple(keep + i for i in new),
                (),
            )
            counts = turn.usage
            usage = Usage(4, counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"], 0, 300)
            file.write(
                encode(
                    ModelCall(
                        turn.id,
                        turn.session,
                        "main",
                        turn.at,
                        turn.at + 1.5,
                        turn.at + turn.took,
                        "anthropic",
                        MODEL,
                        outline,
                        usage,
                        usage,
                        None,
                    )
                )
                + b"\n"
            )
            if file.tell() >= n_bytes:
                return


def ledger_bills(folder: Path, n_bytes: int, words: Words) -> None:
    """Ours, bills only."""
    from contextkit.cache.usage import Usage
    from contextkit.ledger.calls import ModelCall, encode
    from contextkit.ledger.ledger import HEADER

    with (folder / "ledger.jsonl").open("wb") as file:
        file.write(HEADER)
        for turn in turns(words):
            counts = turn.usage
            usage = Usage(4, counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"], 0, 300)
            file.write(
                encode(
                    ModelCall(
                        turn.id,
                        turn.session,
                        "main",
                        turn.at,
                        turn.at + 1.5,
                        turn.at + turn.took,
                        "anthropic",
                        MODEL,
                        None,
                        usage,
                        None,
                        None,
                    )
                )
                + b"\n"
            )
            if file.tell() >= n_bytes:
                return
