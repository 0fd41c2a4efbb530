"""Requests and responses: pairs in one line, and an HTTP archive.

Takes a folder, a size and words, writes files.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.logs.turns import MODEL, TURNS, Json, Turn, Words, by_line, compact, spaced, turns, when


def _response(turn: Turn) -> Json:
    return {
        "id": turn.id,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": turn.reply,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": turn.usage,
    }


def raw_pairs(folder: Path, n_bytes: int, words: Words) -> None:
    """As a program writes them with compact separators, the request first."""
    made = turns(words)
    lines = (
        compact({"request": turn.body, "response": _response(turn), "at": turn.at, "ended_at": turn.at + turn.took})
        for turn in made
    )
    by_line(folder / "pairs.jsonl", n_bytes, lines)


def raw_pairs_spaced(folder: Path, n_bytes: int, words: Words) -> None:
    """As `json.dumps` writes them, the time first."""
    made = turns(words)
    lines = (
        spaced({"timestamp": turn.at, "session_id": turn.session, "request": turn.body, "response": _response(turn)})
        for turn in made
    )
    by_line(folder / "pairs.jsonl", n_bytes, lines)


def raw_pairs_single(folder: Path, n_bytes: int, words: Words) -> None:
    """Conversations of one call each: nothing of a body was read before but its system text and tools."""
    made = (turn for turn in turns(words) if turn.number == words.random.randrange(TURNS))
    by_line(
        folder / "pairs.jsonl",
        n_bytes,
        (compact({"request": turn.body, "response": _response(turn), "at": turn.at}) for turn in made),
    )


def openai_pairs(folder: Path, n_bytes: int, words: Words) -> None:
    """Chat Completions: messages first, tools last, as that SDK sends them."""

    def line(turn: Turn) -> bytes:
        said = [{"role": "system", "content": turn.body["system"][0]["text"]}]
        said += [
            {"role": one["role"], "content": one["content"][0].get("text") or one["content"][0]["content"]}
            for one in turn.body["messages"]
        ]
        tools = [
            {"type": "function", "function": {"name": one["name"], "parameters": one["input_schema"]}}
            for one in turn.body["tools"]
        ]
        read, written = turn.usage["cache_read_input_tokens"], turn.usage["cache_creation_input_tokens"]
        usage = {"prompt_tokens": read + written, "completion_tokens": 300, "total_tokens": read + written + 300}
        usage["prompt_tokens_details"] = {"cached_tokens": read}  # type: ignore[assignment]
        reply = {"role": "assistant", "content": turn.reply[0]["text"]}
        choices = [{"index": 0, "message": reply, "finish_reason": "stop"}]
        response = {
            "id": turn.id,
            "object": "chat.completion",
            "created": int(turn.at),
            "model": "gpt-5.1",
            "choices": choices,
            "usage": usage,
        }
        return compact({"request": {"messages": said, "model": "gpt-5.1", "tools": tools}, "response": response})

    by_line(folder / "pairs.jsonl", n_bytes, map(line, turns(words)))


def har(folder: Path, n_bytes: int, words: Words) -> None:
    """As mitmproxy writes them: indented, the response an event stream."""
    made, entries, n = turns(words), list[Json](), 0
    while n < n_bytes:
        turn = next(made)
        start = {
            "type": "message_start",
            "message": {**_response(turn), "content": [], "usage": {**turn.usage, "output_tokens": 1}},
        }
        text = turn.reply[0]["text"]
        deltas = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[at : at + 12]}}
            for at in range(0, len(text), 12)
        ]
        end = [
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 300}},
            {"type": "message_stop"},
        ]
        stream = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in (start, *deltas, *end))
        headers = [{"name": f"x-header-{n}", "value": words.id()} for n in range(14)]
        posted = {"mimeType": "application/json", "text": compact(turn.body).decode(), "params": []}
        request = {
            "method": "POST",
            "url": "https://api.anthropic.com/v1/messages",
            "httpVersion": "HTTP/2.0",
            "cookies": [],
            "headers": headers,
            "queryString": [],
            "headersSize": 900,
            "bodySize": 9,
            "postData": posted,
        }
        content = {
            "size": len(stream),
            "compression": 0,
            "mimeType": "text/event-stream; charset=utf-8",
            "text": stream,
        }
        response = {
            "status": 200,
            "statusText": "OK",
            "httpVersion": "HTTP/2.0",
            "cookies": [],
            "headers": headers,
            "content": content,
            "redirectURL": "",
            "headersSize": 700,
            "bodySize": 9,
        }
        timings = {"connect": 8.1, "ssl": 12.2, "send": 4.0, "receive": 1500.5, "wait": 700.1}
        entries.append(
            {
                "startedDateTime": when(turn.at),
                "time": turn.took * 1000,
                "request": request,
                "response": response,
                "cache": {},
                "timings": timings,
                "serverIPAddress": "10.0.0.1",
            }
        )
        n += len(posted["text"]) + len(stream)  # type: ignore[arg-type]
    log = {
        "log": {
            "version": "1.2",
            "creator": {"name": "mitmproxy", "version": "12.2.0", "comment": ""},
            "pages": [],
            "entries": entries,
        }
    }
    (folder / "flows.har").write_bytes(json.dumps(log, indent=4).encode())
