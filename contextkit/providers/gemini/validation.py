"""What the Gemini API refuses: fields, parts, the order of a conversation, and what must not stand beside a cached
content.

Tables after `google.genai.types` 3.4 and https://ai.google.dev/gemini-api/docs/caching.
"""

from __future__ import annotations

from collections.abc import Iterator

from contextkit.canonical import Json
from contextkit.providers.validation import (
    ARRAY,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    WHOLE,
    Fields,
    Kind,
    ParsedRequest,
    PromptCheck,
    ReceivedRequest,
    Refusal,
    RequestCheck,
    Shape,
    faults,
    one_of,
)

_DATA = Shape({"data": TEXT, "mimeType": TEXT, "displayName": TEXT}, "data mimeType")
_FILE = Shape({"fileUri": TEXT, "mimeType": TEXT, "displayName": TEXT}, "fileUri")
_CALL = Shape({"id": TEXT, "name": TEXT, "args": OBJECT}, "name")
_OF_MEDIA: Fields = {
    **dict.fromkeys(
        ("videoMetadata", "mediaResolution", "documentMetadata", "spreadsheetMetadata", "audioMetadata"), OBJECT
    ),
    "mediaProcessing": TEXT,
}
_SHOWN = Shape({"inlineData": _DATA, "fileData": _FILE, **_OF_MEDIA}, one_of="inlineData fileData")
_ANSWER = Shape(
    {"id": TEXT, "name": TEXT, "response": OBJECT, "parts": (_SHOWN,), "willContinue": FLAG, "scheduling": TEXT},
    "name response",
)
_SERVED: Fields = {"id": TEXT, "toolType": TEXT}
_HELD: Fields = {
    "text": TEXT,
    "inlineData": _DATA,
    "fileData": _FILE,
    "functionCall": _CALL,
    "functionResponse": _ANSWER,
    "executableCode": OBJECT,
    "codeExecutionResult": OBJECT,
    "toolCall": Shape({**_SERVED, "args": OBJECT}),
    "toolResponse": Shape({**_SERVED, "response": OBJECT}),
}
"""Of these a part has exactly one."""
_PART = Shape(
    {
        **_HELD,
        **_OF_MEDIA,
        "thought": FLAG,
        "thoughtSignature": TEXT,
        **dict.fromkeys(("partMetadata", "speechMetadata", "audioTranscription"), OBJECT),
    },
    one_of=" ".join(_HELD),
)
_CONTENT = Shape({"role": one_of("user", "model"), "parts": (_PART,)}, "parts")
_DECLARED = Shape(
    {
        "name": TEXT,
        "description": TEXT,
        "parameters": OBJECT,
        "parametersJsonSchema": OBJECT,
        "response": OBJECT,
        "responseJsonSchema": OBJECT,
        "behavior": TEXT,
    },
    "name",
)
_TOOL = Shape(
    {
        "functionDeclarations": (_DECLARED,),
        "googleSearch": OBJECT,
        "googleMaps": OBJECT,
        "codeExecution": OBJECT,
        "urlContext": OBJECT,
        "fileSearch": OBJECT,
        "computerUse": OBJECT,
        "googleSearchRetrieval": OBJECT,
        "mcpServers": ARRAY,
        **dict.fromkeys(("enterpriseWebSearch", "parallelAiSearch", "exaAiSearch", "retrieval"), OBJECT),
    }
)
_WORDS: Fields = {
    "model": TEXT,
    "systemInstruction": _CONTENT,
    "tools": (_TOOL,),
    "toolConfig": OBJECT,
    "contents": (_CONTENT,),
}
_LIMITS = Shape(
    {
        **dict.fromkeys(("maxOutputTokens", "candidateCount", "seed", "logprobs"), WHOLE),
        "stopSequences": TEXTS,
        "responseMimeType": TEXT,
        **dict.fromkeys(("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty"), NUMBER),
        "responseLogprobs": FLAG,
        **dict.fromkeys(
            ("responseSchema", "responseJsonSchema", "thinkingConfig", "speechConfig", "imageConfig"), OBJECT
        ),
        "responseModalities": TEXTS,
        "mediaResolution": TEXT,
    }
)
_NAMED = Kind("the name of a content", lambda value: isinstance(value, str | dict))
REQUEST = Shape(
    {
        **_WORDS,
        "stream": FLAG,
        "generationConfig": _LIMITS,
        "safetySettings": ARRAY,
        "cachedContent": _NAMED,
        "serviceTier": TEXT,
        "store": FLAG,
        "labels": OBJECT,
    },
    "model contents",
)
"""The fields of a call; the server says itself what a content holds that is named."""
CREATED = Shape({**_WORDS, "ttl": TEXT, "displayName": TEXT}, "model")
"""Fields of a content that is made."""
TOO_LONG = Refusal(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed.")


_OPEN = frozenset({"$", "$.generationConfig"})
"""Objects in which a field that nobody knows is accepted, unless the server is strict."""


def invalid(path: str, what: str) -> Refusal:
    """A 400 in Google's words."""
    return Refusal(400, "INVALID_ARGUMENT", f"Invalid value at '{path}': {what}")


def authenticated(received: ReceivedRequest) -> Iterator[Refusal]:
    """Any key will do, and none is looked at."""
    if not (received.headers.get("x-goog-api-key") or received.headers.get("authorization")):
        yield Refusal(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers. Please use an API key.")


def fields(received: ReceivedRequest) -> Iterator[Refusal]:
    """Every field and part has its shape, and no list of contents or parts is empty."""
    yield from shaped(received, REQUEST)
    if not received.body["contents"] or not all(content["parts"] for content in received.body["contents"]):
        yield invalid("contents", "contents are not specified, or one has no parts")


def shaped(received: ReceivedRequest, shape: Shape) -> Iterator[Refusal]:
    """Fields of their kinds; on a strict server, known ones alone."""
    found = faults(received.body, shape, "$", frozenset() if received.is_strict else _OPEN)
    return (invalid(path.removeprefix("$."), f"expected {what}") for path, what in found)


def conversation(received: ReceivedRequest) -> Iterator[Refusal]:
    """The user speaks first and last, and as many functions answer as were called."""
    said: list[tuple[str, list[Json]]] = []
    for content in received.body["contents"]:
        role = content.get("role", "user")
        if said and said[-1][0] == role:
            said[-1][1].extend(content["parts"])
        else:
            said.append((role, list(content["parts"])))
    if said[-1][0] != "user":
        yield invalid("contents", "Please ensure that multiturn requests end with a user role.")
    for (_, before), (role, after) in zip([("", []), *said], said, strict=False):
        calls = [part["functionCall"]["name"] for part in before if "functionCall" in part]
        answers = [part["functionResponse"]["name"] for part in after if "functionResponse" in part]
        if role == "user" and len(calls) != len(answers):
            yield invalid(
                "contents",
                "the number of function response parts must equal that of the function call parts of the turn before",
            )
        if not all(answers):
            yield invalid("contents", "function_response.name: Name cannot be empty.")


def window(request: ParsedRequest) -> Iterator[Refusal]:
    """A prompt that fits."""
    if request.parsed.prompt.n_tokens > request.model.window_tokens:
        yield TOO_LONG


REQUEST_CHECKS: tuple[RequestCheck, ...] = (authenticated, fields, conversation)
PROMPT_CHECKS: tuple[PromptCheck, ...] = (window,)
