"""What the SDKs that have no TypedDicts for requests hold against one: botocore's service model, and google-genai with
no field unknown.

Takes a body of the wire, with base64, or the keyword arguments of the typed method, with bytes; gives faults as text,
none where it fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

Json = Any


@cache
def _service() -> Any:
    session = pytest.importorskip("botocore.session", reason="the SDK of the extra `bedrock` (boto3) is not installed")
    return session.get_session().get_service_model("bedrock-runtime")


def converse() -> Any:
    """The input shape of `Converse`."""
    return _service().operation_model("Converse").input_shape


def converse_stream() -> Any:
    """The shape of the events of `ConverseStream`."""
    return _service().operation_model("ConverseStream").output_shape.members["stream"]


def bedrock_faults(body: Json) -> list[str]:
    """Faults of a body of `Converse`; its validator takes text where bytes are due."""
    return converse_faults(body)


def converse_faults(keywords: Mapping[str, Any]) -> list[str]:
    """The same of keyword arguments.

    Beside its validator, which looks at types: unions of one member, known words, lengths, patterns.
    """
    validate = pytest.importorskip("botocore.validate")
    report = validate.ParamValidator().validate(dict(keywords), converse()).generate_report()
    return [report] if report else list(_unlike(dict(keywords), converse(), "$"))


def _unlike(value: Any, shape: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure" and not getattr(shape, "is_document_type", False) and isinstance(value, dict):
        if getattr(shape, "is_tagged_union", False) and len(value) != 1:
            yield f"{path}: {sorted(value)}"
        for name, item in value.items():
            yield from _unlike(item, shape.members[name], f"{path}.{name}")
    elif shape.type_name == "list":
        for index, item in enumerate(value):
            yield from _unlike(item, shape.member, f"{path}[{index}]")
    elif shape.type_name == "string":
        most, pattern = shape.metadata.get("max"), shape.metadata.get("pattern")
        if shape.enum and value not in shape.enum:
            yield f"{path}: {value!r} not in {shape.enum}"
        if (most and len(value) > most) or (pattern and not re.fullmatch(pattern, value)):
            yield f"{path}: {value!r} is longer than {most} or not {pattern}"


@cache
def _types() -> Any:
    return pytest.importorskip(
        "google.genai.types", reason="the SDK of the extra `gemini` (google-genai) is not installed"
    )


def part() -> Any:
    """The model of a part."""
    return _types().Part


def tool() -> Any:
    """The model of a tool."""
    return _types().Tool


def gemini_faults(body: Json) -> list[str]:
    """Faults of a body of `generateContent`."""
    beside = {name: value for name, value in body.items() if name not in ("model", "contents", "generationConfig")}
    return generate_faults(
        {"model": body["model"], "contents": body["contents"], "config": {**beside, **body.get("generationConfig", {})}}
    )


def generate_faults(keywords: Mapping[str, Any]) -> list[str]:
    """The same of keyword arguments; google-genai forbids every field it does not know."""
    config = keywords["config"]
    checks = [(_types().GenerateContentConfig, config), (_types().Content, config.get("systemInstruction") or {})]
    checks += [(_types().Content, content) for content in keywords["contents"]]
    checks += [(_types().Tool, tool) for tool in config.get("tools", [])]
    more = [f"$.{name}: no such argument" for name in keywords.keys() - {"model", "contents", "config"}]
    return [*more, *(fault for model, value in checks for fault in _invalid(model, value))]


def _invalid(model: Any, value: Any) -> list[str]:
    from pydantic import ValidationError

    try:
        model.model_validate(value)
    except ValidationError as error:
        return [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)]
    return []
