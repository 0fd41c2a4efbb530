"""What Bedrock Converse refuses: fields, blocks, cachePoints, and the order of a conversation.

Tables after botocore 1.44, bedrock-runtime, shape ConverseRequest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.providers.validation import (
    ANYTHING,
    ARRAY,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    WHOLE,
    Fields,
    ParsedRequest,
    PromptCheck,
    ReceivedRequest,
    Refusal,
    RequestCheck,
    Shape,
    faults,
    one_of,
)

MOST_POINTS = 4
"""cachePoints of one request (prompt-caching guide)."""
_SOURCE = Shape(
    {"bytes": TEXT, "text": TEXT, "s3Location": Shape({"uri": TEXT, "bucketOwner": TEXT}, "uri"), "content": ARRAY}
)
_MEDIA = Shape(
    {
        "format": TEXT,
        "source": _SOURCE,
        "name": TEXT,
        "context": TEXT,
        "citations": Shape({"enabled": FLAG}),
        "error": OBJECT,
    },
    "source",
)
_POINT = Shape({"type": one_of("default"), "ttl": one_of("5m", "1h")}, "type")
_SEARCHED = Shape({"source": TEXT, "title": TEXT, "content": ARRAY, "citations": OBJECT}, "source title content")
_GIVEN: Fields = {"text": TEXT, "image": _MEDIA, "document": _MEDIA, "video": _MEDIA, "searchResult": _SEARCHED}
_RESULT = Shape(
    {
        "toolUseId": TEXT,
        "content": (Shape({**_GIVEN, "json": ANYTHING}, one_of="json " + " ".join(_GIVEN)),),
        "status": one_of("success", "error"),
        "type": TEXT,
    },
    "toolUseId content",
)
_REASONED = Shape(
    {"reasoningText": Shape({"text": TEXT, "signature": TEXT}, "text"), "redactedContent": TEXT},
    one_of="reasoningText redactedContent",
)
_BLOCK: Fields = {
    **_GIVEN,
    "audio": _MEDIA,
    "toolUse": Shape({"toolUseId": TEXT, "name": TEXT, "input": OBJECT, "type": TEXT}, "toolUseId name input"),
    "toolResult": _RESULT,
    "cachePoint": _POINT,
    "reasoningContent": _REASONED,
    "guardContent": OBJECT,
    "citationsContent": OBJECT,
    "toolAddition": OBJECT,
    "toolRemoval": OBJECT,
}
_SPEC = Shape(
    {"name": TEXT, "description": TEXT, "inputSchema": Shape({"json": OBJECT}, "json"), "strict": FLAG},
    "name inputSchema",
)
_TOOL: Fields = {"toolSpec": _SPEC, "systemTool": Shape({"name": TEXT}, "name"), "cachePoint": _POINT}
_SYSTEM: Fields = {"text": TEXT, "guardContent": OBJECT, "cachePoint": _POINT}
_CHOICE = Shape({"auto": OBJECT, "any": OBJECT, "tool": Shape({"name": TEXT}, "name")}, one_of="auto any tool")
_MESSAGE = Shape(
    {"role": one_of("user", "assistant", "system"), "content": (Shape(_BLOCK, one_of=" ".join(_BLOCK)),)},
    "role content",
)
_LIMITS = Shape({"maxTokens": WHOLE, "temperature": NUMBER, "topP": NUMBER, "stopSequences": TEXTS})
REQUEST = Shape(
    {
        "modelId": TEXT,
        "stream": FLAG,
        "inferenceConfig": _LIMITS,
        "messages": (_MESSAGE,),
        "system": (Shape(_SYSTEM, one_of=" ".join(_SYSTEM)),),
        "toolConfig": Shape({"tools": (Shape(_TOOL, one_of=" ".join(_TOOL)),), "toolChoice": _CHOICE}, "tools"),
        "additionalModelResponseFieldPaths": TEXTS,
        "guardrailConfig": OBJECT,
        "additionalModelRequestFields": OBJECT,
        "promptVariables": OBJECT,
        "requestMetadata": OBJECT,
        "performanceConfig": OBJECT,
        "serviceTier": OBJECT,
        "outputConfig": OBJECT,
    },
    "modelId messages",
)
"""The arguments of `converse`."""


_OPEN = frozenset({"$", "$.inferenceConfig"})
"""Objects in which a field that nobody knows is accepted, unless the server is strict."""


def invalid(path: str, what: str) -> Refusal:
    """A 400 in Bedrock's words."""
    return Refusal(400, "ValidationException", f"The value at {path} is not valid: {what}")


def authenticated(received: ReceivedRequest) -> Iterator[Refusal]:
    """Any credentials will do, and none are looked at."""
    if not received.headers.get("authorization"):
        yield Refusal(403, "MissingAuthenticationTokenException", "Missing Authentication Token")


def fields(received: ReceivedRequest) -> Iterator[Refusal]:
    """Every field and block has its shape, no text is blank, and neither messages nor tools are empty."""
    for path, what in faults(received.body, REQUEST, "$", frozenset() if received.is_strict else _OPEN):
        yield invalid(path.removeprefix("$."), f"expected {what}")
    texts = [block["text"] for array in _arrays(received.body) for block in array if "text" in block]
    if not all(text.strip() for text in texts):
        yield invalid("text", "the text field is blank")
    if not received.body["messages"] or (received.body.get("toolConfig") or {"tools": [1]})["tools"] == []:
        yield invalid("messages", "at least one message, and one tool of a toolConfig, must be there")


def _arrays(body: Mapping[str, Json]) -> list[list[dict[str, Json]]]:
    """Every list of blocks."""
    tools = (body.get("toolConfig") or {}).get("tools") or []
    return [tools, body.get("system") or [], *(message["content"] for message in body["messages"])]


def points(received: ReceivedRequest) -> Iterator[Refusal]:
    """At most four cachePoints, each behind something."""
    arrays = _arrays(received.body)
    n_points = sum("cachePoint" in block for array in arrays for block in array)
    if n_points > MOST_POINTS:
        yield invalid("cachePoint", f"{n_points} of them, at most {MOST_POINTS} are allowed")
    if any(array and "cachePoint" in array[0] for array in arrays):
        yield invalid("cachePoint", "it must follow the content it caches")


def conversation(received: ReceivedRequest) -> Iterator[Refusal]:
    """The user begins, roles take turns, and every call is answered in the turn behind it."""
    messages = [message for message in received.body["messages"] if message["role"] != "system"]
    roles = [message["role"] for message in messages]
    if roles[:1] != ["user"]:
        yield invalid("messages", "a conversation must start with a user message")
    if roles[-1:] != ["user"]:
        yield invalid("messages", "a conversation must end with a user message")
    for index, message in enumerate(messages[1:], 1):
        calls = {block["toolUse"]["toolUseId"] for block in messages[index - 1]["content"] if "toolUse" in block}
        results = {block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block}
        if roles[index] == roles[index - 1]:
            yield invalid(f"messages.{index}.role", "roles must alternate between user and assistant")
        elif message["role"] == "user" and calls != results:
            yield invalid(
                f"messages.{index}", "expected a toolResult for each toolUse of the turn before, and no other"
            )


def choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """`toolChoice` names a tool that there is."""
    config = received.body.get("toolConfig") or {}
    chosen = (config.get("toolChoice") or {}).get("tool")
    if chosen and chosen["name"] not in {tool["toolSpec"]["name"] for tool in config["tools"] if "toolSpec" in tool}:
        yield invalid("toolConfig.toolChoice.tool.name", "no such tool")


def window(request: ParsedRequest) -> Iterator[Refusal]:
    """A prompt that fits."""
    if request.parsed.prompt.n_tokens > request.model.window_tokens:
        yield Refusal(400, "ValidationException", "Input is too long for requested model.")


def moved(body: Mapping[str, Json], ordinal: int) -> Refusal:
    """Reasoning number `ordinal` no longer stands behind the conversation it was made from."""
    return invalid(
        "reasoningContent", f"block {ordinal} is bound to the conversation before it, which has changed since"
    )


REQUEST_CHECKS: tuple[RequestCheck, ...] = (authenticated, fields, points, conversation, choice)
PROMPT_CHECKS: tuple[PromptCheck, ...] = (window,)
