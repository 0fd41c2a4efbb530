"""What Bedrock Converse refuses: fields, blocks, cachePoints, and the order of a conversation.

Shapes are those of botocore's own service model (bedrock-runtime, ConverseRequest); without boto3 they are not checked.
Written by hand is what the model does not say.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.server.endpoints.validation import (
    ParsedRequest,
    PromptCheck,
    ReceivedRequest,
    Refusal,
    RequestCheck,
    require_fit,
    require_key,
)

_MOST_DIGESTS = 1 << 16
MOST_CACHE_POINTS = 4
"""cachePoints of one request (prompt-caching guide)."""


def invalid(path: str, expectation: str) -> Refusal:
    """A 400 in Bedrock's words."""
    return Refusal(400, "ValidationException", f"The value at {path} is not valid: {expectation}")


class RequestShape(Container[str]):
    """The arguments of `converse`, and the check of a body; everything fits where boto3 is not installed."""

    _open = frozenset({"", ".inferenceConfig"})
    """Objects in which a field that botocore does not know is accepted, unless the server is strict."""

    def __init__(self) -> None:
        self._fitting: set[bytes] = set()
        """Digests of messages that fit: a growing conversation is checked once."""

    @cached_property
    def _declared(self) -> Any:
        try:
            botocore: Any = import_module("botocore.session")
        except ImportError:
            return None
        return botocore.Session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape

    def __contains__(self, name: object) -> bool:
        return self._declared is None or name == "stream" or name in self._declared.members

    @cached_property
    def _validator(self) -> Any:
        return import_module("botocore.validate").ParamValidator()

    def _errors(self, arguments: Mapping[str, Json]) -> list[tuple[str, str, Mapping[str, Any]]]:
        """(kind, path, details) of each; the validator's report is text that quotes values, so its parts are read."""
        errors: list[tuple[str, str, Mapping[str, Any]]] = self._validator.validate(arguments, self._declared)._errors
        return errors

    def mismatches(self, body: Mapping[str, Json], *, is_strict: bool) -> Iterator[tuple[str, str]]:
        """(path, what is expected there) of each value that does not fit."""
        if self._declared is None:
            return
        arguments = {name: value for name, value in body.items() if name != "stream"}
        messages = arguments.get("messages")
        if isinstance(messages, list):
            digests = [blake2b(canonical(message), digest_size=16).digest() for message in messages]
            new = [message for message, digest in zip(messages, digests, strict=True) if digest not in self._fitting]
            if not self._errors({**arguments, "messages": new}):
                if len(self._fitting) > _MOST_DIGESTS:
                    self._fitting.clear()
                self._fitting.update(digests)
                return
        for kind, path, details in self._errors(arguments):
            if kind == "missing required field":
                yield f"{path}.{details['required_name']}".lstrip("."), "a value"
            elif kind == "invalid type":
                types = (str(name).removeprefix("<class '").removesuffix("'>") for name in details["valid_types"])
                yield path.lstrip("."), " or ".join(f"a valid {_TYPES.get(name, name)}" for name in types)
            elif kind in ("more than one input", "empty input"):
                yield path.lstrip("."), f"exactly one of {', '.join(details['members'])}"
            elif kind != "unknown field":
                yield path.lstrip("."), f"another value ({kind})"
            elif is_strict or path not in self._open:
                yield f"{path}.{details['unknown_param']}".lstrip("."), "no such field"


_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "dict": "object", "list": "array"}
"""Python's name of a type → JSON's."""
REQUEST_SHAPE = RequestShape()


def shape(received: ReceivedRequest) -> Iterator[Refusal]:
    """Every field and block has the shape that botocore declares; the lists of words it leaves to the service too."""
    for path, expectation in REQUEST_SHAPE.mismatches(received.body, is_strict=received.is_strict):
        yield invalid(path, f"expected {expectation}")
    for name in ("modelId", "messages"):
        if received.body.get(name) is None:
            yield invalid(name, "expected a value")


def content(request: ParsedRequest) -> Iterator[Refusal]:
    """No text is blank, arguments are objects, and neither messages nor tools are empty."""
    body = request.received.body
    texts = [block.get("text") for array in _arrays(body) for block in array]
    if any(isinstance(text, str) and not text.strip() for text in texts):
        yield invalid("text", "the text field is blank")
    calls = [
        block["toolUse"] for message in body["messages"] for block in message.get("content") or () if "toolUse" in block
    ]
    if not all(isinstance(call.get("input"), dict) for call in calls if isinstance(call, dict)):
        yield invalid("toolUse.input", "expected an object")
    if not body["messages"] or (body.get("toolConfig") or {}).get("tools") == []:
        yield invalid("messages", "at least one message, and one tool of a toolConfig, must be there")


def _arrays(body: Mapping[str, Json]) -> list[list[dict[str, Json]]]:
    """Every list of blocks of a body that was parsed."""
    tools = (body.get("toolConfig") or {}).get("tools") or []
    return [tools, body.get("system") or [], *(message.get("content") or [] for message in body["messages"])]


def cache_points(request: ParsedRequest) -> Iterator[Refusal]:
    """At most four cachePoints, each behind something, each of a type there is."""
    arrays = _arrays(request.received.body)
    points = [block["cachePoint"] for array in arrays for block in array if "cachePoint" in block]
    if len(points) > MOST_CACHE_POINTS:
        yield invalid("cachePoint", f"{len(points)} of them, at most {MOST_CACHE_POINTS} are allowed")
    if any(array and "cachePoint" in array[0] for array in arrays):
        yield invalid("cachePoint", "it must follow the content it caches")
    if any(point.get("type") != "default" for point in points):
        yield invalid("cachePoint.type", "expected 'default'")


def conversation(request: ParsedRequest) -> Iterator[Refusal]:
    """The user begins, roles alternate, and every call has its result in the next turn."""
    messages = [message for message in request.received.body["messages"] if message["role"] != "system"]
    roles = [message["role"] for message in messages]
    if roles[:1] != ["user"]:
        yield invalid("messages", "a conversation must start with a user message")
    if roles[-1:] != ["user"]:
        yield invalid("messages", "a conversation must end with a user message")
    for index, message in enumerate(messages[1:], 1):
        calls, results = _ids(messages[index - 1], "toolUse"), _ids(message, "toolResult")
        if roles[index] == roles[index - 1]:
            yield invalid(f"messages.{index}.role", "roles must alternate between user and assistant")
        elif message["role"] == "user" and calls != results:
            yield invalid(
                f"messages.{index}", "expected a toolResult for each toolUse of the turn before, and no other"
            )


def _ids(message: Mapping[str, Json], kind: str) -> set[str]:
    blocks = (block.get(kind) for block in message.get("content") or ())
    return {str(block.get("toolUseId")) for block in blocks if isinstance(block, dict)}


def tool_choice(request: ParsedRequest) -> Iterator[Refusal]:
    """`toolChoice` names a tool that there is."""
    config = request.received.body.get("toolConfig") or {}
    choice = config.get("toolChoice")
    wanted = choice.get("tool") if isinstance(choice, dict) else None
    specs = [tool.get("toolSpec") for tool in config.get("tools") or ()]
    names = [spec.get("name") for spec in specs if isinstance(spec, dict)]
    if isinstance(wanted, dict) and wanted.get("name") not in names:
        yield invalid("toolConfig.toolChoice.tool.name", "no such tool")


def moved(body: Mapping[str, Json], ordinal: int) -> Refusal:
    """Reasoning number `ordinal` no longer stands behind the conversation it was made from."""
    return invalid(
        "reasoningContent", f"block {ordinal} is bound to the conversation before it, which has changed since"
    )


_NO_CREDENTIALS = Refusal(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
_TOO_LONG = Refusal(400, "ValidationException", "Input is too long for requested model.")
REQUEST_CHECKS: tuple[RequestCheck, ...] = (require_key(_NO_CREDENTIALS, "authorization"), shape)
PROMPT_CHECKS: tuple[PromptCheck, ...] = (content, cache_points, conversation, tool_choice, require_fit(_TOO_LONG))
