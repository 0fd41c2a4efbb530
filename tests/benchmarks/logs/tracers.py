"""What gateways and tracers write: OTLP, LiteLLM, Langfuse.

Takes a folder, a size and words, writes files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.logs.turns import MODEL, TURNS, Json, Turn, Words, by_line, compact, turns, when


def _typed(value: Any) -> Json:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_typed(one) for one in value]}}
    return (
        {"intValue": str(value)}
        if isinstance(value, int)
        else {"doubleValue": value}
        if isinstance(value, float)
        else {"stringValue": value}
    )


def _attributes(said: Json) -> list[Json]:
    return [{"key": key, "value": _typed(value)} for key, value in said.items()]


def _otlp(turn: Turn, words: Words, *, has_content: bool) -> list[Json]:
    """The spans of a turn: its call, the request of the client's library, the tool that ran, their agent."""
    trace, agent = turn.session, turn.session[:16]
    usage = turn.usage

    def span(own: str, parent: str, name: str, kind: int, said: Json, events: list[Json]) -> Json:
        return {
            "traceId": trace,
            "spanId": own,
            "parentSpanId": parent,
            "flags": 257,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(int(turn.at * 1e9)),
            "endTimeUnixNano": str(int((turn.at + turn.took) * 1e9)),
            "attributes": _attributes(said),
            "events": events,
            "status": {},
        }

    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.system": "anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": MODEL,
        "gen_ai.response.id": turn.id,
        "gen_ai.request.max_tokens": 8192,
        "gen_ai.request.temperature": 0.7,
        "gen_ai.response.finish_reasons": ["tool_use"],
        "gen_ai.conversation.id": turn.session,
        "gen_ai.agent.name": "researcher",
        "server.address": "api.anthropic.com",
        "server.port": 443,
        "gen_ai.usage.input_tokens": usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] + 4,
        "gen_ai.usage.output_tokens": 300,
        "gen_ai.usage.cache_read.input_tokens": usage["cache_read_input_tokens"],
        "gen_ai.usage.cache_creation.input_tokens": usage["cache_creation_input_tokens"],
        "thread.id": 140237,
        "thread.name": "MainThread",
        "code.filepath": "/srv/agent/loop.py",
        "code.lineno": 212,
        "user.id": words.id(),
        "deployment.environment": "production",
    }
    if has_content:
        said["gen_ai.input.messages"] = json.dumps(
            [{"role": one["role"], "parts": one["content"]} for one in turn.body["messages"]]
        )
        said["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": turn.reply}])
    call, tool = words.id(16), words.id(16)
    http = {
        "http.request.method": "POST",
        "url.full": "https://api.anthropic.com/v1/messages",
        "http.response.status_code": 200,
        "server.address": "api.anthropic.com",
        "server.port": 443,
        "network.protocol.version": "1.1",
    }
    ran = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "tool_3",
        "gen_ai.tool.call.id": "toolu_" + words.id(24),
        "gen_ai.tool.type": "function",
        "thread.id": 140237,
    }
    spans = [
        span(call, agent, f"chat {MODEL}", 3, said, []),
        span(words.id(16), call, "POST", 3, http, []),
        span(tool, agent, "execute_tool tool_3", 1, ran, []),
    ]
    if turn.number == TURNS - 1:
        spans.append(
            span(
                agent,
                "",
                "invoke_agent researcher",
                1,
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "researcher"},
                [],
            )
        )
    return spans


def _exports(words: Words, *, has_content: bool) -> Iterator[bytes]:
    """As the collector's file exporter writes them: a batch a line."""
    made = turns(words)
    resource = {
        "attributes": _attributes(
            {"service.name": "agents", "telemetry.sdk.language": "python", "host.name": words.id()}
        )
    }
    while True:
        spans = [span for _ in range(30) for span in _otlp(next(made), words, has_content=has_content)]
        scopes = [{"scope": {"name": "opentelemetry.instrumentation.anthropic", "version": "2.9.1"}, "spans": spans}]
        yield compact({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]})


def otlp(folder: Path, n_bytes: int, words: Words) -> None:
    """Spans without what was said."""
    by_line(folder / "spans.jsonl", n_bytes, _exports(words, has_content=False))


def otlp_content(folder: Path, n_bytes: int, words: Words) -> None:
    """Spans with what was said as text in an attribute."""
    by_line(folder / "spans.jsonl", n_bytes, _exports(words, has_content=True))


def _spend_log(turn: Turn, words: Words, *, has_body: bool) -> Json:
    usage = turn.usage
    prompt = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"] + 4
    details = {
        "cached_tokens": usage["cache_read_input_tokens"],
        "cache_creation_tokens": usage["cache_creation_input_tokens"],
    }
    metadata = {
        "user_api_key": words.id(64),
        "user_api_key_alias": "agents",
        "user_api_key_team_id": words.id(),
        "user_api_key_org_id": None,
        "user_api_key_user_id": "default",
        "user_api_key_team_alias": "research",
        "requester_ip_address": "",
        "spend_logs_metadata": None,
        "applied_guardrails": [],
        "status": "success",
        "error_information": None,
        "proxy_server_request": None,
        "batch_models": None,
        "mcp_tool_call_metadata": None,
        "vector_store_request_metadata": None,
        "guardrail_information": None,
        "cold_storage_object_key": None,
        "usage_object": {
            "completion_tokens": 300,
            "prompt_tokens": prompt,
            "total_tokens": prompt + 300,
            "prompt_tokens_details": details,
            "cache_creation_input_tokens": usage["cache_creation_input_tokens"],
            "cache_read_input_tokens": usage["cache_read_input_tokens"],
        },
        "model_map_information": {
            "model_map_key": MODEL,
            "model_map_value": {
                "key": MODEL,
                "max_tokens": 64000,
                "input_cost_per_token": 3e-6,
                "output_cost_per_token": 1.5e-5,
                "litellm_provider": "anthropic",
                "mode": "chat",
            },
        },
        "additional_usage_values": {
            "cache_creation_input_tokens": usage["cache_creation_input_tokens"],
            "cache_read_input_tokens": usage["cache_read_input_tokens"],
            "prompt_tokens_details": details,
        },
        "cost_breakdown": {"input_cost": 0.011, "output_cost": 0.0045, "total_cost": 0.0155, "tool_usage_cost": 0.0},
    }
    return {
        "request_id": turn.id,
        "call_type": "acompletion",
        "api_key": words.id(64),
        "spend": 0.0155,
        "total_tokens": prompt + 300,
        "prompt_tokens": prompt,
        "completion_tokens": 300,
        "startTime": when(turn.at),
        "endTime": when(turn.at + turn.took),
        "completionStartTime": when(turn.at + 1),
        "request_duration_ms": int(turn.took * 1000),
        "model": MODEL,
        "model_id": words.id(64),
        "model_group": "sonnet",
        "mcp_namespaced_tool_name": None,
        "agent_id": None,
        "custom_llm_provider": "anthropic",
        "api_base": "https://api.anthropic.com/v1/messages",
        "user": "default",
        "metadata": metadata,
        "cache_hit": "False",
        "cache_key": "Cache OFF",
        "request_tags": ["User-Agent: python", "team"],
        "team_id": words.id(),
        "organization_id": None,
        "end_user": "",
        "requester_ip_address": None,
        "session_id": turn.session,
        "status": "success",
        "messages": {},
        "response": {},
        "proxy_server_request": turn.body if has_body else {},
    }


def litellm(folder: Path, n_bytes: int, words: Words) -> None:
    """Rows as the proxy stores them by default, without what was said."""
    made = turns(words)
    by_line(folder / "spend.jsonl", n_bytes, (compact(_spend_log(turn, words, has_body=False)) for turn in made))


def litellm_bodies(folder: Path, n_bytes: int, words: Words) -> None:
    """Rows with their requests (`store_prompts_in_spend_logs`)."""
    made = turns(words)
    by_line(folder / "spend.jsonl", n_bytes, (compact(_spend_log(turn, words, has_body=True)) for turn in made))


def langfuse(folder: Path, n_bytes: int, words: Words) -> None:
    """Observations with input and output, as its export to blob storage writes them."""

    def line(turn: Turn) -> bytes:
        usage = turn.usage
        cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        details = {"input": 4, "output": 300, "cache_read_input_tokens": cached, "cache_creation_input_tokens": written}
        return compact(
            {
                "id": turn.id,
                "trace_id": turn.session,
                "project_id": words.id(),
                "environment": "default",
                "type": "GENERATION",
                "parent_observation_id": turn.session[:16],
                "start_time": when(turn.at),
                "end_time": when(turn.at + turn.took),
                "name": "ChatAnthropic",
                "metadata": {"ls_provider": "anthropic", "ls_model_name": MODEL, "ls_temperature": "0.7"},
                "level": "DEFAULT",
                "status_message": None,
                "version": None,
                "input": turn.body["messages"][-3:],
                "output": turn.reply,
                "provided_model_name": MODEL,
                "model_parameters": {"max_tokens": 8192, "temperature": 0.7},
                "usage_details": {**details, "total": 304 + cached + written},
                "cost_details": {"input": 0.0012, "output": 0.0045, "total": 0.0057},
                "completion_start_time": when(turn.at + 1),
                "session_id": turn.session,
                "prompt_name": None,
                "total_cost": 0.0057,
            }
        )

    by_line(folder / "observations.jsonl", n_bytes, map(line, turns(words)))
