"""Every block a request may hold, made from the types of the SDKs, and who says it: the pools of `every_block.py`.

A row of a table says of each type of block who says it. The blocks themselves come from the types of the SDK
(`filled_params.py` for the TypedDicts of anthropic and openai, `filled_shapes.py` for botocore's shapes and the models
of google-genai)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, get_args

from anthropic.types.beta.beta_content_block_param import BetaContentBlockParam
from anthropic.types.beta.beta_tool_union_param import BetaToolUnionParam
from anthropic.types.content_block_param import ContentBlockParam
from anthropic.types.tool_union_param import ToolUnionParam
from openai.types.chat import (
    ChatCompletionContentPartParam,
    ChatCompletionMessageParam,
    ChatCompletionMessageToolCallUnionParam,
)
from openai.types.responses import ResponseInputItemParam

from contextkit.providers.masking import INLINE_TOOLS, TOOL_CHANGES
from contextkit.providers.notices import BLOCKS
from tests.providers import filled_params, filled_shapes, oracles

Json = Any
Pool = dict[str, list[Json]]
"""Type of block → blocks of it."""
USER, MODEL, SYSTEM, CALL, ANSWER, NEVER = "user", "model", "system", "call", "answer", "never"
"""Who says a block: a call is answered in the turn behind it, what is never sent says why in the table."""


def of_tag(values: Iterable[Json], tag: str) -> Pool:
    pool: Pool = {}
    for value in values:
        pool.setdefault(value[tag], []).append(value)
    return pool


def of_types(kinds: Iterable[Any]) -> Iterator[Json]:
    return (value for kind in kinds for value in filled_params.variants(kind))


def with_id(block: Json, name: str, kinds: Mapping[str, str]) -> Json:
    """A block whose id stands under the key its type or role says."""
    return {
        **block,
        next(key for kind, key in kinds.items() if kind in (block.get("type"), block.get("role"), "")): name,
    }


# ---- Anthropic

_OF_MODEL = (
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_listing",
    "compaction",
    "fallback",
    "advisor_tool_result",
    "mcp_tool_result",
    *(
        f"{name}_tool_result"
        for name in (
            "web_search",
            "web_fetch",
            "code_execution",
            "bash_code_execution",
            "text_editor_code_execution",
            "tool_search",
        )
    ),
)
ANTHROPIC = {
    "text": (USER, MODEL, SYSTEM),
    **dict.fromkeys(("image", "document", "search_result", "container_upload"), (USER,)),
    **dict.fromkeys(_OF_MODEL, (MODEL,)),
    **dict.fromkeys(("tool_addition", "tool_removal"), (SYSTEM,)),
    "tool_use": (CALL,),
    "tool_result": (ANSWER,),
}
BETAS = sorted({TOOL_CHANGES, INLINE_TOOLS, *(headers[0] for headers in BLOCKS.values())})
NAMED = [{"name": "text", "input_schema": {"type": "object"}}, {"type": "mcp_toolset", "mcp_server_name": "desk"}]
"""What references refer to."""


@cache
def anthropic_blocks() -> Pool:
    return of_tag(
        of_types((*get_args(ContentBlockParam), *get_args(BetaContentBlockParam)[:-1])), "type"
    )  # the last: types of replies


def anthropic_said(who: str, block: Json) -> Json:
    """Newer versions take no citations from a user, and a signed compaction at the very beginning only."""
    if block["type"] == "compaction":
        return {key: value for key, value in block.items() if key != "signature"}
    if who == SYSTEM and "server_name" in block.get("tool", {}):
        return {**block, "tool": {**block["tool"], "server_name": "desk"}}
    if who == USER and block["type"] == "search_result":
        return {**block, "content": [{**part, "citations": None} for part in block["content"]]}
    return {**block, "citations": None} if who != MODEL and block["type"] == "text" else block


# ---- Chat

CHAT = {
    **dict.fromkeys(("user", "function"), (USER,)),
    **dict.fromkeys(("developer", "system"), (SYSTEM,)),
    "assistant": (MODEL,),
    **dict.fromkeys(("a call: function", "a call: custom"), (CALL,)),
    "tool": (ANSWER,),
}


@cache
def chat_messages() -> Pool:
    """Messages by role, and calls, which stand in a field of their own."""
    pool = of_tag(of_types(get_args(ChatCompletionMessageParam)), "role")
    pool["user"] += [
        {"role": "user", "content": [part]} for part in filled_params.variants(ChatCompletionContentPartParam)
    ]
    pool["assistant"] = [
        {key: value for key, value in each.items() if key != "tool_calls"} for each in pool["assistant"]
    ]
    pool["assistant"] = [each for each in pool["assistant"] if each.keys() - {"role", "name"}]
    calls = of_tag(filled_params.variants(ChatCompletionMessageToolCallUnionParam), "type")
    return {**pool, **{f"a call: {kind}": values for kind, values in calls.items()}}


# ---- Responses

_ITEMS_OF_MODEL = (
    "assistant",
    "file_search_call",
    "computer_call",
    "web_search_call",
    "reasoning",
    "image_generation_call",
    "code_interpreter_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_call",
    "program",
    "compaction",
    "program_output",
)
RESPONSES = {
    "user": (USER,),
    "system": (SYSTEM,),
    "developer": (SYSTEM,),
    **dict.fromkeys(_ITEMS_OF_MODEL, (MODEL,)),
    **dict.fromkeys(
        (
            "computer_call_output",
            "local_shell_call_output",
            "shell_call_output",
            "apply_patch_call_output",
            "mcp_approval_response",
            "compaction_trigger",
        ),
        (USER,),
    ),
    "additional_tools": (SYSTEM,),
    "configuration_update": (SYSTEM,),
    "function_call": (CALL,),
    "custom_tool_call": (CALL,),
    "function_call_output": (ANSWER,),
    "custom_tool_call_output": (ANSWER,),
    "tool_search_call": (MODEL, CALL),
    "tool_search_output": (MODEL, ANSWER),
    "item_reference": (NEVER, "it stands for an item that the server keeps"),
}


@cache
def response_items() -> Pool:
    """Items by type, messages by who says them."""
    pool: Pool = {}
    for item in of_types(get_args(ResponseInputItemParam)):
        kind = item.get("type") or ("message" if "role" in item else "item_reference")
        pool.setdefault(item["role"] if kind == "message" else kind, []).append(item)
    return pool


def item_said(who: str, item: Json) -> Json:
    """A search for tools is answered by whoever runs it."""
    is_search = str(item.get("type")).startswith("tool_search")
    return None if is_search and (who == MODEL) == (item.get("execution") == "client") else item


# ---- Bedrock

BEDROCK = {
    "text": (USER, MODEL, SYSTEM),
    **dict.fromkeys(("toolAddition", "toolRemoval"), (SYSTEM,)),
    **dict.fromkeys(("image", "document", "video", "audio", "guardContent", "searchResult"), (USER,)),
    **dict.fromkeys(("reasoningContent", "citationsContent"), (MODEL,)),
    "cachePoint": (USER, MODEL),
    "toolUse": (CALL,),
    "toolResult": (ANSWER,),
}


@cache
def bedrock_blocks() -> Pool:
    shape = oracles.converse().members["messages"].member.members["content"].member
    pool: Pool = {}
    for block in filled_shapes.of_shape(shape):
        pool.setdefault(next(iter(block)), []).append(block)
    # a tool that Bedrock runs is called and answered in the model's own turn
    pool["toolUse"] = [block for block in pool["toolUse"] if "type" not in block["toolUse"]]
    pool["toolResult"] = [
        {"toolResult": {k: v for k, v in block["toolResult"].items() if k != "type"}} for block in pool["toolResult"]
    ]
    return pool


def bedrock_numbered(block: Json, name: str) -> Json:
    ((kind, inside),) = block.items()
    return {kind: {**inside, "toolUseId": name}}


# ---- Gemini

_MEDIA = ("inlineData", "fileData")
GEMINI = {
    "text": (USER, MODEL),
    **dict.fromkeys(_MEDIA, (USER, MODEL)),
    "functionCall": (CALL,),
    "functionResponse": (ANSWER,),
    **dict.fromkeys(("executableCode", "codeExecutionResult", "toolCall", "toolResponse"), (MODEL,)),
}
BESIDE = {
    **dict.fromkeys(("thought", "thoughtSignature", "speechMetadata"), ("text",)),
    "partMetadata": tuple(GEMINI),
    **dict.fromkeys(
        (
            "videoMetadata",
            "mediaResolution",
            "mediaProcessing",
            "documentMetadata",
            "spreadsheetMetadata",
            "audioMetadata",
            "audioTranscription",
        ),
        _MEDIA,
    ),
}
"""Field that holds no content of its own → fields it may stand beside."""
VERTEX_ONLY = ("partialArgs", "willContinue")
"""Fields of a functionCall that google-genai itself refuses to send to the Gemini API (google/genai/models.py)."""


@cache
def gemini_parts() -> Pool:
    fields = {info.alias or name: info.annotation for name, info in oracles.part().model_fields.items()}
    values = {name: list(filled_shapes.of_model(annotation)) for name, annotation in fields.items()}
    values["functionCall"] = [
        {k: v for k, v in value.items() if k not in VERTEX_ONLY} for value in values["functionCall"]
    ]
    values["functionResponse"] = [one for value in values["functionResponse"] for one in _alternatives(value)]
    pool = {name: [{name: value} for value in values[name]] for name in values if name not in BESIDE}
    for name, hosts in BESIDE.items():
        for host in hosts:
            pool[host] += [{**pool[host][0], name: value} for value in values[name]]
    return {**pool, **{name: [] for name in BESIDE}}


def _alternatives(answer: Json) -> Iterator[Json]:
    """An answer whose parts hold one thing each; what is a notice of a call that goes on is none of ours."""
    parts = answer["parts"]
    alone = [{key: value for key, value in part.items() if key != other} for part in parts for other in _MEDIA]
    yield {**{key: value for key, value in answer.items() if key != "willContinue"}, "parts": alone}


def named(block: Json, name: str) -> Json:
    return {key: {**inside, "id": name} if key.startswith("function") else inside for key, inside in block.items()}


# ---- tools and system prompts


def anthropic_heads() -> list[Json]:
    tools = of_types((*get_args(ToolUnionParam), *get_args(BetaToolUnionParam)))
    texts = (block for block in anthropic_blocks()["text"] if not block.get("citations"))
    return [*({"tools": [tool]} for tool in tools), *({"system": [block]} for block in texts)]


def bedrock_heads() -> list[Json]:
    members = oracles.converse().members
    tools = list(filled_shapes.of_shape(members["toolConfig"].members["tools"].member))
    for each in (tool["toolSpec"] for tool in tools if "toolSpec" in tool):
        each["inputSchema"] = {"json": {"type": "object", "properties": {"b": {}, "a": {}}}}
    system = filled_shapes.of_shape(members["system"].member)
    return [
        *({"toolConfig": {"tools": [tool]}} for tool in tools if "cachePoint" not in tool),
        *({"system": [block]} for block in system),
    ]


def gemini_heads() -> list[Json]:
    """Each field of a tool by itself; a system prompt is text."""
    found = [{"tools": [{name: value}]} for name, value in filled_shapes.alone(oracles.tool())]
    return [*found, {"systemInstruction": {"parts": [{"text": "text"}]}}]
