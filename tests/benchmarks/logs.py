"""Recordings of every format that `reading.py` measures, made by the same agents at work: one conversation a file or lines of several.

Takes a folder and a size, writes files. Text is drawn from words with a fixed seed: two runs write the same bytes. Bodies grow from turn to
turn as agents' do, four conversations at a time, with tools, a system text, and markers that move.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

WORDS = (
    "the", "of", "file", "error", "return", "value", "function", "test", "import", "class", "path", "line", "prefix", "cache",
    "token", "module", "index", "build", "request", "reply", "assert", "raise", "None", "self", "list", "dict", "print", "open",
    "read", "write", "close", "loop", "while", "await", "async", "yield", "from", "with", "as", "if", "else", "not", "and", "or",
)  # fmt: skip
START, SEED = 1_767_225_600.0, 20_261_121  # 2026-01-01
MODEL = "claude-sonnet-4-5-20250929"
TURNS, AT_ONCE = 40, 4
Json = dict[str, Any]


class Words:
    """Text as tools give it: numbered lines of code, with quotes."""

    def __init__(self, seed: int = SEED) -> None:
        self.random, self.clock = random.Random(seed), START
        self.text = "".join(self._row(number) for number in range(60_000))

    def _row(self, number: int) -> str:
        words = self.random.choices(WORDS, k=self.random.randint(2, 11))
        return f'{number % 2000:6}\u2192{"    " * self.random.randrange(4)}{" ".join(words[:-1])} "{words[-1]}"\n'

    def some(self, least: int, most: int) -> str:
        n = self.random.randint(least, most)
        at = self.random.randrange(len(self.text) - n)
        return self.text[at : at + n]

    def output(self) -> str:
        """What a tool gave: mostly short, seldom very long."""
        return self.some(*(2 * [int(min(60_000, 100 + self.random.paretovariate(1.1) * 500))]))

    def id(self, n: int = 32) -> str:
        return f"{self.random.getrandbits(4 * n):0{n}x}"


@dataclass
class Turn:
    """One call of a conversation."""

    session: str
    number: int
    at: float
    took: float
    body: Json
    reply: list[Json]
    """Blocks of the response."""
    usage: Json
    id: str
    result: Json = field(default_factory=dict)
    """What was put to it last."""


def turns(words: Words) -> Iterator[Turn]:
    """Calls of conversations without end, several at a time."""
    running: list[Iterator[Turn]] = []
    while True:
        while len(running) < AT_ONCE:
            running.append(_conversation(words))
        chosen = words.random.randrange(AT_ONCE)
        turn = next(running[chosen], None)
        if turn is None:
            del running[chosen]
        else:
            yield turn


def _conversation(words: Words) -> Iterator[Turn]:
    session, size, cached = words.id(), 7_000, 0
    tools = [
        {"name": f"tool_{n}", "description": words.some(200, 900), "input_schema": {"type": "object", "properties": {
            name: {"type": "string", "description": words.some(20, 90)} for name in ("path", "pattern", "limit")}}}
        for n in range(12)
    ]  # fmt: skip
    system = [{"type": "text", "text": words.some(6000, 9000)}]
    said: list[Json] = [{"role": "user", "content": [{"type": "text", "text": words.some(80, 900)}]}]
    for number in range(TURNS):
        words.clock += words.random.expovariate(1 / 20)
        at = words.clock
        grown = sum(len(json.dumps(one)) for one in said[-2:]) // 4
        size += grown
        marked = [*said[:-1], {**said[-1], "content": [{**said[-1]["content"][0], "cache_control": {"type": "ephemeral"}}]}]
        body = {"model": MODEL, "max_tokens": 8192, "system": system, "tools": tools, "messages": marked, "stream": False}
        usage = {"input_tokens": 4, "cache_creation_input_tokens": size - cached, "cache_read_input_tokens": cached, "output_tokens": 300}
        call = {"type": "tool_use", "id": "toolu_" + words.id(24), "name": "tool_3", "input": {"path": words.some(10, 40)}}
        reply = [{"type": "text", "text": words.some(40, 600)}, call]
        yield Turn(session, number, at, 2 + words.random.random() * 9, body, reply, usage, "msg_01" + words.id(22), said[-1])
        cached = size
        said.append({"role": "assistant", "content": reply})
        said.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": words.output()}]})


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _spaced(value: Any) -> bytes:
    return json.dumps(value).encode()


def _by_line(path: Path, n_bytes: int, lines: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        while file.tell() < n_bytes:
            file.write(next(lines) + b"\n")


# One function a format --------------------------------------------------------------------------------------------------------


def _response(turn: Turn) -> Json:
    return {
        "id": turn.id, "type": "message", "role": "assistant", "model": MODEL, "content": turn.reply, "stop_reason": "tool_use",
        "stop_sequence": None, "usage": turn.usage,
    }  # fmt: skip


def raw_pairs(folder: Path, n_bytes: int, words: Words) -> None:
    """As a program writes them with compact separators, the request first."""
    made = turns(words)
    lines = (_compact({"request": turn.body, "response": _response(turn), "at": turn.at, "ended_at": turn.at + turn.took}) for turn in made)
    _by_line(folder / "pairs.jsonl", n_bytes, lines)


def raw_pairs_spaced(folder: Path, n_bytes: int, words: Words) -> None:
    """As `json.dumps` writes them, the time first."""
    made = turns(words)
    lines = (_spaced({"timestamp": turn.at, "session_id": turn.session, "request": turn.body, "response": _response(turn)}) for turn in made)
    _by_line(folder / "pairs.jsonl", n_bytes, lines)


def raw_pairs_single(folder: Path, n_bytes: int, words: Words) -> None:
    """Conversations of one call each: nothing of a body was read before but its system text and tools."""
    made = (turn for turn in turns(words) if turn.number == words.random.randrange(TURNS))
    _by_line(folder / "pairs.jsonl", n_bytes, (_compact({"request": turn.body, "response": _response(turn), "at": turn.at}) for turn in made))


def openai_pairs(folder: Path, n_bytes: int, words: Words) -> None:
    """Chat Completions: messages first, tools last, as that SDK sends them."""

    def line(turn: Turn) -> bytes:
        said = [{"role": "system", "content": turn.body["system"][0]["text"]}]
        said += [{"role": one["role"], "content": one["content"][0].get("text") or one["content"][0]["content"]} for one in turn.body["messages"]]
        tools = [{"type": "function", "function": {"name": one["name"], "parameters": one["input_schema"]}} for one in turn.body["tools"]]
        read, written = turn.usage["cache_read_input_tokens"], turn.usage["cache_creation_input_tokens"]
        usage = {"prompt_tokens": read + written, "completion_tokens": 300, "total_tokens": read + written + 300}
        usage["prompt_tokens_details"] = {"cached_tokens": read}  # type: ignore[assignment]
        reply = {"role": "assistant", "content": turn.reply[0]["text"]}
        choices = [{"index": 0, "message": reply, "finish_reason": "stop"}]
        response = {"id": turn.id, "object": "chat.completion", "created": int(turn.at), "model": "gpt-5.1", "choices": choices, "usage": usage}
        return _compact({"request": {"messages": said, "model": "gpt-5.1", "tools": tools}, "response": response})

    _by_line(folder / "pairs.jsonl", n_bytes, map(line, turns(words)))


def har(folder: Path, n_bytes: int, words: Words) -> None:
    """As mitmproxy writes them: indented, the response an event stream."""
    made, entries, n = turns(words), list[Json](), 0
    while n < n_bytes:
        turn = next(made)
        start = {"type": "message_start", "message": {**_response(turn), "content": [], "usage": {**turn.usage, "output_tokens": 1}}}
        text = turn.reply[0]["text"]
        deltas = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[at : at + 12]}}
            for at in range(0, len(text), 12)
        ]
        end = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 300}}, {"type": "message_stop"}]
        stream = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in (start, *deltas, *end))
        headers = [{"name": f"x-header-{n}", "value": words.id()} for n in range(14)]
        posted = {"mimeType": "application/json", "text": _compact(turn.body).decode(), "params": []}
        request = {"method": "POST", "url": "https://api.anthropic.com/v1/messages", "httpVersion": "HTTP/2.0", "cookies": [],
                   "headers": headers, "queryString": [], "headersSize": 900, "bodySize": 9, "postData": posted}  # fmt: skip
        content = {"size": len(stream), "compression": 0, "mimeType": "text/event-stream; charset=utf-8", "text": stream}
        response = {"status": 200, "statusText": "OK", "httpVersion": "HTTP/2.0", "cookies": [], "headers": headers, "content": content,
                    "redirectURL": "", "headersSize": 700, "bodySize": 9}  # fmt: skip
        timings = {"connect": 8.1, "ssl": 12.2, "send": 4.0, "receive": 1500.5, "wait": 700.1}
        entries.append({"startedDateTime": _when(turn.at), "time": turn.took * 1000, "request": request, "response": response,
                        "cache": {}, "timings": timings, "serverIPAddress": "10.0.0.1"})  # fmt: skip
        n += len(posted["text"]) + len(stream)  # type: ignore[arg-type]
    log = {"log": {"version": "1.2", "creator": {"name": "mitmproxy", "version": "12.2.0", "comment": ""}, "pages": [], "entries": entries}}
    (folder / "flows.har").write_bytes(json.dumps(log, indent=4).encode())


def _typed(value: Any) -> Json:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_typed(one) for one in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def _attributes(said: Json) -> list[Json]:
    return [{"key": key, "value": _typed(value)} for key, value in said.items()]


def _otlp(turn: Turn, words: Words, *, has_content: bool) -> list[Json]:
    """The spans of a turn: its call, the request of the client's library, the tool that ran, their agent."""
    trace, agent = turn.session, turn.session[:16]
    usage = turn.usage

    def span(own: str, parent: str, name: str, kind: int, said: Json, events: list[Json]) -> Json:
        return {
            "traceId": trace, "spanId": own, "parentSpanId": parent, "flags": 257, "name": name, "kind": kind,
            "startTimeUnixNano": str(int(turn.at * 1e9)), "endTimeUnixNano": str(int((turn.at + turn.took) * 1e9)),
            "attributes": _attributes(said), "events": events, "status": {},
        }  # fmt: skip

    said = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.system": "anthropic",
        "gen_ai.request.model": MODEL, "gen_ai.response.model": MODEL, "gen_ai.response.id": turn.id,
        "gen_ai.request.max_tokens": 8192, "gen_ai.request.temperature": 0.7, "gen_ai.response.finish_reasons": ["tool_use"],
        "gen_ai.conversation.id": turn.session, "gen_ai.agent.name": "researcher", "server.address": "api.anthropic.com",
        "server.port": 443, "gen_ai.usage.input_tokens": usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] + 4,
        "gen_ai.usage.output_tokens": 300, "gen_ai.usage.cache_read.input_tokens": usage["cache_read_input_tokens"],
        "gen_ai.usage.cache_creation.input_tokens": usage["cache_creation_input_tokens"], "thread.id": 140237, "thread.name": "MainThread",
        "code.filepath": "/srv/agent/loop.py", "code.lineno": 212, "user.id": words.id(), "deployment.environment": "production",
    }  # fmt: skip
    if has_content:
        said["gen_ai.input.messages"] = json.dumps([{"role": one["role"], "parts": one["content"]} for one in turn.body["messages"]])
        said["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": turn.reply}])
    call, tool = words.id(16), words.id(16)
    http = {"http.request.method": "POST", "url.full": "https://api.anthropic.com/v1/messages", "http.response.status_code": 200,
            "server.address": "api.anthropic.com", "server.port": 443, "network.protocol.version": "1.1"}  # fmt: skip
    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "tool_3", "gen_ai.tool.call.id": "toolu_" + words.id(24),
           "gen_ai.tool.type": "function", "thread.id": 140237}  # fmt: skip
    spans = [span(call, agent, f"chat {MODEL}", 3, said, []), span(words.id(16), call, "POST", 3, http, []), span(tool, agent, "execute_tool tool_3", 1, ran, [])]
    if turn.number == TURNS - 1:
        spans.append(span(agent, "", "invoke_agent researcher", 1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "researcher"}, []))
    return spans


def _exports(words: Words, *, has_content: bool) -> Iterator[bytes]:
    """As the collector's file exporter writes them: a batch a line."""
    made = turns(words)
    resource = {"attributes": _attributes({"service.name": "agents", "telemetry.sdk.language": "python", "host.name": words.id()})}
    while True:
        spans = [span for _ in range(30) for span in _otlp(next(made), words, has_content=has_content)]
        scopes = [{"scope": {"name": "opentelemetry.instrumentation.anthropic", "version": "2.9.1"}, "spans": spans}]
        yield _compact({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]})


def otlp(folder: Path, n_bytes: int, words: Words) -> None:
    """Spans without what was said."""
    _by_line(folder / "spans.jsonl", n_bytes, _exports(words, has_content=False))


def otlp_content(folder: Path, n_bytes: int, words: Words) -> None:
    """Spans with what was said as text in an attribute."""
    _by_line(folder / "spans.jsonl", n_bytes, _exports(words, has_content=True))


def _spend_log(turn: Turn, words: Words, *, has_body: bool) -> Json:
    usage = turn.usage
    prompt = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] + 4
    details = {"cached_tokens": usage["cache_read_input_tokens"], "cache_creation_tokens": usage["cache_creation_input_tokens"]}
    metadata = {
        "user_api_key": words.id(64), "user_api_key_alias": "agents", "user_api_key_team_id": words.id(), "user_api_key_org_id": None,
        "user_api_key_user_id": "default", "user_api_key_team_alias": "research", "requester_ip_address": "", "spend_logs_metadata": None,
        "applied_guardrails": [], "status": "success", "error_information": None, "proxy_server_request": None, "batch_models": None,
        "mcp_tool_call_metadata": None, "vector_store_request_metadata": None, "guardrail_information": None, "cold_storage_object_key": None,
        "usage_object": {"completion_tokens": 300, "prompt_tokens": prompt, "total_tokens": prompt + 300, "prompt_tokens_details": details,
                         "cache_creation_input_tokens": usage["cache_creation_input_tokens"],
                         "cache_read_input_tokens": usage["cache_read_input_tokens"]},
        "model_map_information": {"model_map_key": MODEL, "model_map_value": {"key": MODEL, "max_tokens": 64000, "input_cost_per_token": 3e-6,
                                  "output_cost_per_token": 1.5e-5, "litellm_provider": "anthropic", "mode": "chat"}},
        "additional_usage_values": {"cache_creation_input_tokens": usage["cache_creation_input_tokens"],
                                    "cache_read_input_tokens": usage["cache_read_input_tokens"], "prompt_tokens_details": details},
        "cost_breakdown": {"input_cost": 0.011, "output_cost": 0.0045, "total_cost": 0.0155, "tool_usage_cost": 0.0},
    }  # fmt: skip
    return {
        "request_id": turn.id, "call_type": "acompletion", "api_key": words.id(64), "spend": 0.0155, "total_tokens": prompt + 300,
        "prompt_tokens": prompt, "completion_tokens": 300, "startTime": _when(turn.at), "endTime": _when(turn.at + turn.took),
        "completionStartTime": _when(turn.at + 1), "request_duration_ms": int(turn.took * 1000), "model": MODEL, "model_id": words.id(64),
        "model_group": "sonnet", "mcp_namespaced_tool_name": None, "agent_id": None, "custom_llm_provider": "anthropic",
        "api_base": "https://api.anthropic.com/v1/messages", "user": "default", "metadata": metadata, "cache_hit": "False",
        "cache_key": "Cache OFF", "request_tags": ["User-Agent: python", "team"], "team_id": words.id(), "organization_id": None,
        "end_user": "", "requester_ip_address": None, "session_id": turn.session, "status": "success", "messages": {}, "response": {},
        "proxy_server_request": turn.body if has_body else {},
    }  # fmt: skip


def litellm(folder: Path, n_bytes: int, words: Words) -> None:
    """Rows as the proxy stores them by default, without what was said."""
    made = turns(words)
    _by_line(folder / "spend.jsonl", n_bytes, (_compact(_spend_log(turn, words, has_body=False)) for turn in made))


def litellm_bodies(folder: Path, n_bytes: int, words: Words) -> None:
    """Rows with their requests (`store_prompts_in_spend_logs`)."""
    made = turns(words)
    _by_line(folder / "spend.jsonl", n_bytes, (_compact(_spend_log(turn, words, has_body=True)) for turn in made))


def langfuse(folder: Path, n_bytes: int, words: Words) -> None:
    """Observations with input and output, as its export to blob storage writes them."""

    def line(turn: Turn) -> bytes:
        usage = turn.usage
        cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        details = {"input": 4, "output": 300, "cache_read_input_tokens": cached, "cache_creation_input_tokens": written}
        return _compact({
            "id": turn.id, "trace_id": turn.session, "project_id": words.id(), "environment": "default", "type": "GENERATION",
            "parent_observation_id": turn.session[:16], "start_time": _when(turn.at), "end_time": _when(turn.at + turn.took),
            "name": "ChatAnthropic", "metadata": {"ls_provider": "anthropic", "ls_model_name": MODEL, "ls_temperature": "0.7"},
            "level": "DEFAULT", "status_message": None, "version": None, "input": turn.body["messages"][-3:], "output": turn.reply,
            "provided_model_name": MODEL, "model_parameters": {"max_tokens": 8192, "temperature": 0.7},
            "usage_details": {**details, "total": 304 + cached + written}, "cost_details": {"input": 0.0012, "output": 0.0045, "total": 0.0057},
            "completion_start_time": _when(turn.at + 1), "session_id": turn.session, "prompt_name": None, "total_cost": 0.0057,
        })  # fmt: skip

    _by_line(folder / "observations.jsonl", n_bytes, map(line, turns(words)))


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
            rows.append({"type": "session_meta", "payload": {"id": turn.session, "cwd": "~/work", "originator": "codex_cli_rs", "model_provider": "openai",
                         "instructions": words.some(5000, 9000)}})  # fmt: skip
            rows.append({"type": "turn_context", "payload": {"cwd": "~/work", "model": "gpt-5.1-codex", "effort": "medium"}})
        rows.append({"type": "response_item", "payload": {"type": "function_call_output", "call_id": "call_" + words.id(24), "output": json.dumps(
            {"output": _text_of(turn), "metadata": {"exit_code": 0, "duration_seconds": 0.4}})}})  # fmt: skip
        rows.append({"type": "event_msg", "payload": {"type": "agent_reasoning", "text": words.some(50, 300)}})
        rows.append({"type": "response_item", "payload": {"type": "reasoning", "summary": [], "content": None, "encrypted_content": words.id(1800)}})
        rows.append({"type": "response_item", "payload": {"type": "function_call", "name": "shell", "arguments": words.some(50, 800), "call_id": "x"}})
        spent = dict(zip(("input_tokens", "cached_input_tokens", "output_tokens"), count, strict=True))
        last = {"input_tokens": cached + new, "cached_input_tokens": cached, "output_tokens": 300}
        info = {"total_token_usage": {**spent, "reasoning_output_tokens": 0}, "last_token_usage": {**last, "reasoning_output_tokens": 0}}
        rows.append({"type": "event_msg", "payload": {"type": "token_count", "info": info, "rate_limits": {"primary": {"used_percent": 3.0}}}})
        path = folder / f"rollout-{turn.session}.jsonl"
        with path.open("ab") as file:
            for number, row in enumerate(rows):
                file.write(_compact({"timestamp": _when(turn.at + number), **row}) + b"\n")
            written += file.tell() if turn.number == TURNS - 1 else 0


def pi(folder: Path, n_bytes: int, words: Words) -> None:
    """A session a file."""
    written, made = 0, turns(words)
    while written < n_bytes:
        turn = next(made)
        rows: list[Json] = []
        if turn.number == 0:
            rows.append({"type": "session", "id": turn.session, "timestamp": _when(turn.at), "cwd": "~/work", "provider": "anthropic",
                         "modelId": MODEL, "thinkingLevel": "off"})  # fmt: skip
            rows.append({"type": "message", "timestamp": _when(turn.at), "message": {"role": "user", "content": _text_of(turn)}})
        else:
            rows.append({"type": "message", "timestamp": _when(turn.at), "message": {
                "role": "toolResult", "toolCallId": turn.result["content"][0]["tool_use_id"], "toolName": "read", "isError": False,
                "content": [{"type": "text", "text": _text_of(turn)}]}})  # fmt: skip
        usage = {"input": 4, "output": 300, "cacheRead": turn.usage["cache_read_input_tokens"],
                 "cacheWrite": turn.usage["cache_creation_input_tokens"], "cost": {"input": 0.1, "output": 0.2, "total": 0.3}}  # fmt: skip
        call = {"type": "toolCall", "id": turn.reply[1]["id"], "name": "read", "arguments": turn.reply[1]["input"]}
        rows.append({"type": "message", "timestamp": _when(turn.at + turn.took), "message": {
            "role": "assistant", "content": [turn.reply[0], call], "api": "anthropic-messages", "provider": "anthropic", "model": MODEL,
            "usage": usage, "stopReason": "toolUse", "timestamp": int(turn.at * 1000)}})  # fmt: skip
        with (folder / f"{turn.session}.jsonl").open("ab") as file:
            for row in rows:
                file.write(_compact(row) + b"\n")
            written += file.tell() if turn.number == TURNS - 1 else 0


def ledger(folder: Path, n_bytes: int, words: Words) -> None:
    """Ours, prompts as outlines of one segment a message."""
    from contextkit.cache.usage import Usage
    from contextkit.ledger.exchange import Exchange, Outline
    from contextkit.ledger.ledger import HEADER
    from contextkit.ledger.row import encode

    with (folder / "ledger.jsonl").open("wb") as file:
        file.write(HEADER)
        for turn in turns(words):
            keep = 0 if turn.number == 0 else 12 + 2 * turn.number
            new = range(16 if turn.number == 0 else 2)
            outline = Outline(keep, (words.id(), words.id(), words.id()), (12, 14), tuple(words.id() for _ in new), tuple(900 * (keep + i) for i in new),
                              tuple(keep + i for i in new), tuple(keep + i for i in new), ())  # fmt: skip
            counts = turn.usage
            usage = Usage(4, counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"], 0, 300)
            file.write(encode(Exchange(turn.id, turn.session, "main", turn.at, turn.at + 1.5, turn.at + turn.took, "anthropic", MODEL, outline,
                                       usage, usage, None)) + b"\n")  # fmt: skip
            if file.tell() >= n_bytes:
                return


def ledger_bills(folder: Path, n_bytes: int, words: Words) -> None:
    """Ours, bills only."""
    from contextkit.cache.usage import Usage
    from contextkit.ledger.exchange import Exchange
    from contextkit.ledger.ledger import HEADER
    from contextkit.ledger.row import encode

    with (folder / "ledger.jsonl").open("wb") as file:
        file.write(HEADER)
        for turn in turns(words):
            counts = turn.usage
            usage = Usage(4, counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"], 0, 300)
            file.write(encode(Exchange(turn.id, turn.session, "main", turn.at, turn.at + 1.5, turn.at + turn.took, "anthropic", MODEL, None,
                                       usage, None, None)) + b"\n")  # fmt: skip
            if file.tell() >= n_bytes:
                return


LOGS: dict[str, Callable[[Path, int, Words], None]] = {
    made.__name__: made
    for made in (
        raw_pairs, raw_pairs_spaced, raw_pairs_single, openai_pairs, har, otlp, otlp_content, litellm, litellm_bodies, langfuse, codex, pi,
        ledger, ledger_bills,
    )
}  # fmt: skip
"""Name → what writes files of it into a folder."""
