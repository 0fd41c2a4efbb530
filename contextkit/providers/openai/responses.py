"""`POST /responses`: OpenAI's models through the Responses API.

Renders neutral parts and log entries as Responses items and parses them back; parses responses, and joins the events of
a stream into one. `shared.py` holds the common part of Chat and Responses. Field names are those of
`openai.types.responses` 3.52. `instructions` are the same developer message that stands first in the input, and are
read as it.

Content without a field is projected: a failed tool's output begins `Error: `, a plain-text document is a text part, and
another wire's thinking is dropped. An item without a neutral form is stored whole, as a native part. A custom tool's
call is answered by an item of its own kind, so its neutral id carries the prefix `CUSTOM`; a search for tools that the
client runs is a call of `tool_search`, and its result is the definitions (`SEARCH`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from contextkit.cache.usage import served
from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply, UnreadableRequest, UsageError
from contextkit.log.entry import Native
from contextkit.prompt.breakpoints import AUTO_TTL
from contextkit.prompt.normal_form import VERBATIM, marker_of, normal
from contextkit.prompt.prompt import RenderedBlock
from contextkit.providers.adapter import Answering, chosen_model
from contextkit.providers.body_items import RenderedItems
from contextkit.providers.histories import CONVERSATION, PREVIOUS
from contextkit.providers.late_tools import SEARCHES_SEARCH as SEARCH
from contextkit.providers.late_tools import TOOL, answers_search, is_ours, search_result
from contextkit.providers.masking import Endpoint
from contextkit.providers.neutral import Parts, Tools, block_text, verbatim
from contextkit.providers.notices import updates
from contextkit.providers.openai import shared
from contextkit.providers.openai.body import ITEM_METADATA, RESPONSES_BODY, item_type
from contextkit.providers.openai.shared import TTLS, MessageFormat, OpenAIAdapter, grammar, parse_body, read_arguments
from contextkit.providers.provider import Parsed, Reply, ReplyCall, Turn, assistant_body
from contextkit.providers.rendered_blocks import Trait, expect, render_block
from contextkit.providers.reply_json import plain, read_object
from contextkit.providers.server_state import continuing
from contextkit.providers.usage import endpoint_usage

WIRE = "openai_responses"
CUSTOM = "custom_tool_call-"
"""Stands before the id of a custom tool's call."""
TYPES = frozenset({"input_text", "input_image", "input_file", "input_audio"})
"""Types of content parts; everything else in a native part is a whole item."""
_MACHINE = frozenset({"id", "status"})
"""Fields the API adds to items it lists; on the items of users and tools they are no part of a prompt."""
NULLABLE: Mapping[str, tuple[str, ...]] = {
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("result",),
    "tool_search_call": ("arguments",),
    "double_click": ("keys",),
    "function": ("parameters", "strict"),
    "mcp_tool_execution_error": ("content",),
    "image_generation_call.error": ("code", "param"),
}
"""Type of an item, or of what stands inside one → fields a request must have even when they are null."""
OUTPUTS: Mapping[str, str] = {"function_call_output": "", "custom_tool_call_output": CUSTOM}
"""Type of an item that answers a call → prefix of the call's neutral id."""


def answers(item: Mapping[str, Json]) -> str | None:
    """Prefix of the neutral id of the call that an item answers, None for one that answers none.

    The API answers its own searches.
    """
    return SEARCH if answers_search(item) else OUTPUTS.get(str(item.get("type")))


def items_of(role: str, parts: Json) -> list[Json]:
    """Neutral parts as one message of `role`; native whole items among them stand alone."""
    items: list[Json] = []
    for is_part, group in groupby(PARTS.blocks(parts), key=lambda block: block.get("type") in TYPES):
        blocks = list(group)
        items += [{"role": role, "content": blocks}] if is_part else blocks
    return items


def normalize(item: Mapping[str, Json]) -> dict[str, Json]:
    """Normalize an item: typed, without nulls, without what its client keeps for itself, and without ids on the items of
    users and tools.

    An output of one text part is a string.

    >>> normalize({"type": "function_call_output", "id": "fc_1", "call_id": "c", "output": [{"type": "input_text", "text": "4"}]})
    {'type': 'function_call_output', 'call_id': 'c', 'output': '4'}
    """
    kind = item_type(item)
    is_input = kind in OUTPUTS or (kind == "message" and item.get("role") != "assistant")
    left_out = {ITEM_METADATA, *_MACHINE} if is_input else {ITEM_METADATA}
    fields = {key: value for key, value in item.items() if value is not None and key not in left_out}
    output = normal(fields.get("output")) if kind in OUTPUTS else None
    if (
        isinstance(output, list)
        and len(output) == 1
        and output[0].keys() == {"type", "text"}
        and output[0]["type"] == "input_text"
    ):
        fields["output"] = output[0]["text"]
    return {
        "type": kind,
        **dict.fromkeys(NULLABLE.get(str(kind), ())),
        **{key: value for key, value in fields.items() if key != "type"},
    }


def _tool(name: str, description: str, schema: Json) -> Json:
    return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}


TOOLS = Tools(WIRE, _tool, lambda tool: (tool.get("name"), tool.get("description"), tool.get("parameters")))


def _text(text: str) -> Json:
    return {"type": "input_text", "text": text}


def _document(part: Mapping[str, Json]) -> Json:
    if shared.is_text(part):
        return _text(shared.text_of(part))
    if "url" in part:
        return {
            "type": "input_file",
            "file_url": part["url"],
            **({"filename": part["title"]} if "title" in part else {}),
        }
    return {"type": "input_file", "file_data": shared.url_of(part), "filename": shared.filename(part)}


def _candidates(block: Mapping[str, Json]) -> list[Json]:
    if block.get("type") == "input_image":
        return [{"type": "image", **shared.media_of(shared.at(block, "image_url"))}]
    url = shared.at(block, "file_data") or shared.at(block, "file_url")
    return shared.titled(shared.media_of(url), shared.at(block, "filename"))


PARTS = Parts(
    WIRE,
    _text,
    {
        "image": lambda part: {"type": "input_image", "detail": "auto", "image_url": shared.url_of(part)},
        "document": _document,
    },
    _candidates,
)


def render_result(body: Mapping[str, Json]) -> list[Json]:
    """Render the result of a tool."""
    blocks = PARTS.blocks(body["content"])
    if len(blocks) == 1 and answers(blocks[0]) is not None:
        return blocks
    if body["call_id"].startswith(SEARCH):
        return [search_result(body, blocks)]
    blocks = [block if block.get("type") in TYPES else _text(block_text(block)) for block in blocks]
    output = shared.as_error(blocks, "input_text") if body["is_error"] else blocks
    kind = "custom_tool_call_output" if body["call_id"].startswith(CUSTOM) else "function_call_output"
    return [{"type": kind, "call_id": body["call_id"].removeprefix(CUSTOM), "output": output or ""}]


def render_reply(body: Mapping[str, Json]) -> list[Json]:
    """Render a reply of the model: its own items, or another wire's reply as items."""
    native = body["native"]
    if native["wire"] == WIRE:
        return list(native["body"])
    text: list[Json] = [{"type": "message", "role": "assistant", "content": body["text"]}] if body["text"] else []
    return text + [_call(call) for call in body["calls"]]


def _call(call: Mapping[str, Json]) -> Json:
    written = shared.written_arguments(call["arguments"])
    return {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": written}


RENDERERS: Mapping[str, Callable[[Mapping[str, Json]], list[Json]]] = {
    "configuration_update": lambda body: (
        updates(body["event"]) or items_of("developer", [{"type": "text", "text": body["text"]}])
    ),
    "additional_tools": lambda body: [
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [TOOLS.sent(definition) for definition in body["definitions"]],
        }
    ],
}
"""Option of `announcing` or `noticing` that only this endpoint has → renderer of its items."""


def neutral_parts(item: Mapping[str, Json], role: str) -> Iterator[Json]:
    """The neutral parts of a message that should have `role`; the whole item as one native part where it is
    anything else.
    """
    plain = normalize(item)
    content = plain.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content or []
    is_plain = plain.keys() == {"type", "role", "content"} and all(part["type"] in TYPES for part in parts)
    if is_plain and (plain["type"], plain["role"]) == ("message", role):
        yield from PARTS.neutral(normal(parts))
    else:
        yield verbatim(WIRE, normal(plain))


def parse_result(item: Mapping[str, Json]) -> Json:
    """An item that answers a call as the body of a result."""
    plain = normal(normalize(item))
    output = plain.get("output", plain.get("tools"))
    content = [{"type": "text", "text": output}] if isinstance(output, str) else PARTS.neutral(output)
    prefix = answers(plain)
    body = {
        "call_id": f"{prefix}{plain['call_id']}",
        "name": TOOL if prefix == SEARCH else "",
        "content": content,
        "is_error": False,
    }
    if normal(normalize(render_result(body)[0])) != plain:
        body["content"] = [verbatim(WIRE, plain)]
    return body


_INPUTS = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "computer_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "mcp_approval_response",
        "additional_tools",
        "configuration_update",
        "compaction_trigger",
    }
)
"""Types of items that do not come from the model (responses/response_input_item_param.py)."""
_UNSENDABLE: Mapping[str, frozenset[str]] = {
    "custom_tool_call": frozenset({"created_by", "status"}),
    "custom_tool_call_output": frozenset({"created_by", "status"}),
    "computer_call_output": frozenset({"created_by", "status"}),
}
"""Type of an item → fields that come with a reply and that no request takes; `created_by` for the others."""
_ANY = frozenset({"created_by"})
_CALLS: dict[str, Callable[[Mapping[str, Json]], ReplyCall]] = {
    "function_call": lambda item: ReplyCall(item["call_id"], item["name"], read_arguments(item["arguments"])),
    "custom_tool_call": lambda item: ReplyCall(CUSTOM + item["call_id"], item["name"], item["input"]),
    "tool_search_call": lambda item: ReplyCall(SEARCH + item["call_id"], TOOL, item["arguments"]),
}
STOPS = {"max_output_tokens": "truncated", "content_filter": "refused"}
"""Reason of an incomplete response → next step of the loop (responses/response.py); every other is a truncation."""


COMPACTED = "response.compaction"
"""Object that `client.responses.compact` returns (responses/compacted_response.py): items that stand in place of the whole
input."""


def reply(response: Any) -> Reply:
    """Parse a `Response`, its dict, or a joined stream.

    Raises `UnreadableReply` for one that failed: nothing of it may be sent again.
    """
    answer = plain(response)
    if answer.get("object", "response") not in ("response", COMPACTED) or not isinstance(answer.get("output"), list):
        raise UnreadableReply(
            f"not a response (object {answer.get('object')!r}): pass what client.responses.create returned"
        )
    if answer.get("status") in ("failed", "cancelled"):
        code = (answer.get("error") or {}).get("code", "no code given")
        raise UnreadableReply(f"response {answer.get('id')!r} {answer['status']} ({code}): send the request again")
    items = [_sendable(item) for item in answer["output"]]
    calls, usage = _calls(items), served(endpoint_usage(WIRE, answer.get("usage")), answer)
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    stop = "calls" if calls else "done"
    if answer.get("object") == COMPACTED:
        stop = "compacted"
    elif answer.get("status", "completed") != "completed":
        stop = STOPS.get((answer.get("incomplete_details") or {}).get("reason", ""), "truncated")
    elif any(part["type"] == "refusal" for part in parts):
        stop = "refused"
    native = Native(WIRE, answer.get("model", ""), canonical(items))
    dropped = {row["id"]: row["reason"] for row in answer.get("input_transformations") or ()}
    return Reply(answer.get("id", ""), native, _responses_reply_text(items), calls, stop, usage, dropped)


def turn(items: list[Json], model: str) -> Json:
    """The body of a log entry for items of a request body that the model generated."""
    native = normal(items)
    return assistant_body(WIRE, model, native, _responses_reply_text(native), _calls(native))


def is_output(item: Mapping[str, Json]) -> bool:
    """Return whether an item of a request body came from the model."""
    return (
        item["role"] == "assistant"
        if item["type"] == "message"
        else item["type"] not in _INPUTS and answers(item) is None
    )


def _sendable(item: Mapping[str, Json]) -> dict[str, Json]:
    sendable: dict[str, Json] = normal(normalize(_requested(item, "")))
    if sendable.get("type") == "tool_search_call" and isinstance(sendable.get("arguments"), dict):
        sendable["arguments"] = read_object(sendable["arguments"])
    return sendable


def _requested(value: Json, inside: str) -> Json:
    """`value` with the fields a request has, at every depth.

    `inside` names its parent, where it has no type of its own.
    """
    if isinstance(value, list):
        return [_requested(item, inside) for item in value]
    if not isinstance(value, dict):
        return value
    kind = inside if inside in NULLABLE else str(value.get("type", ""))
    unsendable = _UNSENDABLE.get(kind, _ANY)
    fields = {
        key: item if key in VERBATIM else _requested(item, f"{kind}.{key}")
        for key, item in value.items()
        if key not in unsendable
    }
    return {**dict.fromkeys(NULLABLE.get(kind, ())), **fields}


def _calls(items: list[Json]) -> tuple[ReplyCall, ...]:
    """Calls that the client answers: a search that ran at the API is none."""
    return tuple(_CALLS[item["type"]](item) for item in items if item["type"] in _CALLS and is_ours(item))


def _responses_reply_text(items: list[Json]) -> str:
    """The text of messages; their refusal where they have no text."""
    contents = [item["content"] for item in items if item["type"] == "message"]
    parts = [part for content in contents for part in ([{"text": content}] if isinstance(content, str) else content)]
    return "".join(part.get("text", "") for part in parts) or "".join(part.get("refusal", "") for part in parts)


def join_events(events: Iterable[Any]) -> Mapping[str, Json]:
    """Join events into a response; a truncated stream gives the items that were finished.

    Raises `UnreadableReply` when not even `response.created` is among them.
    """
    response: dict[str, Json] = {}
    items: dict[int, Json] = {}
    for event in map(plain, events):  # deltas and progress come again with the finished item
        kind = event.get("type", "")
        if kind in _SNAPSHOTS:
            response = dict(event["response"])
        elif kind == "response.output_item.done":
            items[event["output_index"]] = event["item"]
        elif kind == "error":
            response.update(status="failed", error={"code": event.get("code", "error")})
    if not response:
        raise UnreadableReply("the stream ended before response.created: nothing was said")
    return response if response.get("output") else {**response, "output": [items[index] for index in sorted(items)]}


_SNAPSHOTS = frozenset(
    f"response.{status}" for status in ("created", "queued", "in_progress", "completed", "incomplete", "failed")
)
"""Events that hold the whole response."""


_OUTPUT = Trait(run="tool", can_hold_breakpoint=False)
_ITEM = Trait(run="other", can_hold_breakpoint=False)
_ITEMS: Mapping[str, Trait] = {
    "function_call_output": _OUTPUT,
    "custom_tool_call_output": _OUTPUT,
    "computer_call_output": _OUTPUT,
    "local_shell_call_output": _OUTPUT,
    "shell_call_output": _OUTPUT,
    "apply_patch_call_output": _OUTPUT,
    "reasoning": Trait(run="other", can_hold_breakpoint=False, is_thinking=True),
}
"""Type of an item that is one block → its trait for the cache; `_ITEM` for the others."""
_TOOL = Trait(can_hold_breakpoint=False)
_DEFERRED = replace(_TOOL, is_silent=True)
"""A tool with `defer_loading` is not in the prefix until it is loaded (responses/function_tool_param.py)."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
}
"""Type of an item → fields that must be strings."""


def _check(fields: Mapping[str, Json]) -> None:
    for name in (PREVIOUS, CONVERSATION):
        if fields.get(name) is not None:
            raise UnreadableRequest(
                name, "the conversation is on the server, not in this request: send the whole input instead"
            )
    items = expect(fields.get("input"), (str, list), "input", "a string or an array")
    expect(fields.get("instructions") or "", str, "instructions", "a string")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        path = f"input[{index}]"
        kind = item_type(expect(item, dict, path, "an object"))
        if not item.get("type") and "role" not in item and "id" not in item:
            raise UnreadableRequest(f"{path}.type", "Input should be a string")
        if kind == "item_reference":
            raise UnreadableRequest(
                f"{path}.type", "item_reference stands for an item on the server: send the item itself"
            )
        if kind == "message":
            expect(item.get("role"), str, f"{path}.role", "a string")
        for name in _FIELDS.get(expect(kind, str, f"{path}.type", "a string"), ()):
            expect(item.get(name), str, f"{path}.{name}", "a string")
        if kind in OUTPUTS:
            expect(item.get("output"), (str, list), f"{path}.output", "a string or an array")


def _other_fields(item: Mapping[str, Json]) -> dict[str, Json]:
    plain = normalize(item)
    return {key: plain[key] for key in sorted(plain) if key not in ("type", "role", "content")}


def _render_whole(item: Mapping[str, Json], path: str, model: str) -> RenderedBlock:
    fields = normalize(item)
    if fields["type"] == "message":
        expect(
            fields["role"] == "assistant" or None, bool, f"{path}.role", "'developer', 'system', 'user' or 'assistant'"
        )
        expect(fields.get("content"), (str, list), f"{path}.content", "a string or an array")
    block = render_block(fields, "messages", "item", _ITEMS.get(fields["type"], _ITEM), model)
    marker = marker_of(item)  # also one inside content that became a string
    return block if marker is None else replace(block, marker=marker)


def _turns(items: list[Json], model: str) -> Iterator[Turn]:
    for is_model, group in groupby(items, key=lambda item: is_output(normalize(item))):
        if is_model:
            yield Turn("assistant", turn(list(map(normalize, group)), model))
            continue
        for item in group:
            if answers(item) is not None:
                yield Turn("result", parse_result(item))
            else:
                yield Turn("user", {"content": list(neutral_parts(item, "user"))})


FORMAT = MessageFormat(
    WIRE,
    grammar("input"),
    RESPONSES_BODY,
    "input_text",
    items_of,
    render_reply,
    render_result,
    neutral_parts,
    TOOLS,
    _check,
    role=lambda item: str(item["role"]) if item_type(item) == "message" else "",
    other_fields=_other_fields,
    tool=lambda tool: _DEFERRED if tool.get("defer_loading") else _TOOL,
    render_whole=_render_whole,
    turns=_turns,
    renderers=RENDERERS,
)


class OpenAIResponses(OpenAIAdapter):
    """An OpenAI model behind `client.responses.create`.

    `ttl` is the lifetime of everything the request writes, `30m` or `12h`; with `ttl="auto"` the request writes for 30
    minutes, except at explicit breakpoints that the planner gives 12 hours. Everything else is a parameter of the
    endpoint and is sent unchanged; `store=False` and encrypted reasoning are the defaults, so that the log is all there
    is. Models from gpt-5.6 on get one explicit breakpoint, at the end of the system prompt. With `continues=True` the server
    stores each reply, and a request sends only the entries after the last one; `conversation="conv_…"` does so in a
    conversation on the server (`docs/guides/openai-state.md`).

    >>> OpenAIResponses("gpt-6.1-sol", max_output_tokens=4096).params["store"]
    False
    """

    format = FORMAT
    wire = WIRE
    path = "/responses"
    grammar = FORMAT.grammar
    answering = Answering(
        reply,
        lambda response: response.get("status") in ("completed", "incomplete"),
        join_events,
    )

    def __init__(
        self,
        model: str,
        *,
        max_output_tokens: int | None = None,
        ttl: str = "30m",
        continues: bool = False,
        conversation: str | None = None,
        **params: Json,
    ) -> None:
        if ttl not in (*TTLS, AUTO_TTL):
            raise UsageError(f"ttl={ttl!r}: Responses takes '30m', '12h' or 'auto'")
        if "max_tokens" in params:
            raise UsageError("Responses has no max_tokens: give max_output_tokens=…")
        limits = {} if max_output_tokens is None else {"max_output_tokens": max_output_tokens}
        if ttl == "12h":
            params["prompt_cache_options"] = {"ttl": ttl, **(params.get("prompt_cache_options") or {})}
        self.continuing = continuing(continues, conversation, params)
        fields = {**limits, "store": self.continuing is not None, "include": ["reasoning.encrypted_content"], **params}
        super().__init__(Endpoint(WIRE, chosen_model(model, "openai")), ttl, fields)


def parse(body: Json, *, near: Iterable[RenderedItems] = ()) -> Parsed:
    """Parse a `/responses` body into its segments, breakpoints and parameters; `near` as in `render_items`.

    Raises `UnreadableRequest` where it is not one or refers to state on the server.
    """
    return parse_body(FORMAT, body, near)
