"""How other packages place markers: run by an interpreter that has one of them, it reads bodies and says where their
markers go.

`python planner_peers.py NAME < bodies.jsonl > marks.jsonl`; NAME is langchain, pydantic-ai, litellm or litellm-three. A
row in is a Messages body, its blocks numbered (`#12#`); a row out is `{"marks": [[number, ttl], …], "automatic":
bool}`. The package's own code builds the request; a transport of ours keeps it from leaving. Stands alone: the
interpreter that runs it has no contextkit."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from typing import Any

Json = Any
_NUMBER = re.compile(r"#(\d+)#")
_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "ok"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def found(body: Json) -> Json:
    """Where the markers of a request stand, by the number of the block."""
    blocks = [*(body.get("tools") or []), *(body["system"] if isinstance(body.get("system"), list) else [])]
    for message in body["messages"]:
        blocks += message["content"] if isinstance(message["content"], list) else []
    marks = [
        [_number(block), block["cache_control"].get("ttl", "5m")] for block in blocks if block.get("cache_control")
    ]
    return {"marks": marks, "automatic": bool(body.get("cache_control"))}


def _number(block: Json) -> int:
    spelled = json.dumps({name: value for name, value in block.items() if name != "cache_control"})
    return int(_NUMBER.findall(spelled)[0])


def langchain() -> Callable[[Json], Json]:
    from langchain.agents.middleware.types import ModelRequest
    from langchain_anthropic import ChatAnthropic
    from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import StructuredTool

    middleware, model = (
        AnthropicPromptCachingMiddleware(),
        ChatAnthropic(model="claude-opus-4-8", api_key="none", max_tokens=64),
    )

    def said(message: Json) -> list[Any]:
        blocks = message["content"]
        calls = [{"id": b["id"], "name": b["name"], "args": b["input"]} for b in blocks if b["type"] == "tool_use"]
        if message["role"] == "assistant":
            return [AIMessage(content=blocks, tool_calls=calls)]
        results = [
            ToolMessage(content=b["content"], tool_call_id=b["tool_use_id"])
            for b in blocks
            if b["type"] == "tool_result"
        ]
        others = [b for b in blocks if b["type"] != "tool_result"]
        return [*results, *([HumanMessage(content=others)] if others else [])]

    def sent(request: Any) -> Json:
        bound = request.model.bind_tools(request.tools) if request.tools else request.model
        settings = {**getattr(bound, "kwargs", {}), **request.model_settings}
        return model._get_request_payload([request.system_message, *request.messages], **settings)

    def mark(body: Json) -> Json:
        schema: Json = {"type": "object", "properties": {}}
        tools = [
            StructuredTool.from_function(lambda: "", name=t["name"], description=t["description"], args_schema=schema)
            for t in body.get("tools", [])
        ]
        messages = [one for message in body["messages"] for one in said(message)]
        request = ModelRequest(
            model=model,
            messages=messages,
            system_message=SystemMessage(content=body["system"]),
            tools=tools,
            tool_choice=None,
            response_format=None,
            state={"messages": messages},
            runtime=None,
            model_settings={},
        )
        return found(middleware.wrap_model_call(request, sent))

    return mark


def pydantic_ai() -> Callable[[Json], Json]:
    import httpx2
    from anthropic import AsyncAnthropic
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.tools import ToolDefinition

    kept: list[Json] = []

    def answer(request: Any) -> Any:
        kept.append(json.loads(request.content))
        return httpx2.Response(200, json=_ANSWER)

    client = AsyncAnthropic(api_key="none", http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))
    model = AnthropicModel("claude-opus-4-8", provider=AnthropicProvider(anthropic_client=client))
    settings: Any = {
        "anthropic_cache": True,
        "anthropic_cache_instructions": True,
        "anthropic_cache_tool_definitions": True,
        "max_tokens": 64,
    }
    loop = asyncio.new_event_loop()

    def part(block: Json) -> Any:
        if block["type"] == "tool_result":
            return ToolReturnPart(
                tool_name="t0", content=block["content"][0]["text"], tool_call_id=block["tool_use_id"]
            )
        if block["type"] == "tool_use":
            return ToolCallPart(tool_name=block["name"], args=block["input"], tool_call_id=block["id"])
        return block["text"]

    def said(message: Json) -> Any:
        parts = [part(block) for block in message["content"]]
        if message["role"] == "assistant":
            return ModelResponse(parts=[TextPart(one) if isinstance(one, str) else one for one in parts])
        texts = [one for one in parts if isinstance(one, str)]
        results = [one for one in parts if not isinstance(one, str)]
        return ModelRequest(parts=[*results, *([UserPromptPart(content=texts)] if texts else [])])

    def mark(body: Json) -> Json:
        tools = [
            ToolDefinition(name=t["name"], description=t["description"], parameters_json_schema=t["input_schema"])
            for t in body.get("tools", [])
        ]
        messages = [said(message) for message in body["messages"]]
        messages[0] = ModelRequest(
            parts=[*(SystemPromptPart(block["text"]) for block in body["system"]), *messages[0].parts]
        )
        loop.run_until_complete(model.request(messages, settings, ModelRequestParameters(function_tools=tools)))
        sent = kept.pop()
        if isinstance(sent.get("system"), list) and len(sent["system"]) < len(body["system"]):
            for block in sent["system"]:  # it joins system prompts into one: its end is that of the last
                block["text"] = _NUMBER.findall(block["text"])[-1].join("##")
        return found(sent)

    return mark


def _litellm(points: Callable[[Any, Json], list[Json]]) -> Callable[[Json], Json]:
    import litellm
    from litellm.integrations.anthropic_cache_control_hook import AnthropicCacheControlHook

    litellm.enable_anthropic_prompt_caching = True

    def mark(body: Json) -> Json:
        messages, system, _ = AnthropicCacheControlHook.apply_to_anthropic_messages_request(
            body["messages"], body["system"], points(AnthropicCacheControlHook, body)
        )
        return found({**body, "messages": messages, "system": system})

    return mark


def litellm() -> Callable[[Json], Json]:
    return _litellm(
        lambda hook, body: hook.get_default_injection_points(
            body["messages"], body["system"], "claude-opus-4-8", "anthropic"
        )
    )


def litellm_three() -> Callable[[Json], Json]:
    places = [
        {"location": "message", "role": "system"},
        *({"location": "message", "index": -back} for back in (1, 2, 3)),
    ]
    return _litellm(lambda hook, body: places)


PEERS = {"langchain": langchain, "pydantic-ai": pydantic_ai, "litellm": litellm, "litellm-three": litellm_three}


def main() -> None:
    mark = PEERS[sys.argv[1]]()
    for line in sys.stdin:
        print(json.dumps(mark(json.loads(line))), flush=False)


if __name__ == "__main__":
    main()
