"""A JSON schema as providers take it for the form of a reply: OpenAI's strict subset, and Claude's.

Takes a schema without titles, gives another; changes nothing in place. What is required follows the SDKs that make such
schemas themselves (openai 3.52 lib/_pydantic.py, anthropic 2.11 lib/_parse/_transform.py), with two differences: no
titles, which only cost tokens, and a union by `oneOf` is one by `anyOf`, which both providers take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import UsageError

_NAMED = ("properties", "$defs", "definitions")
_LISTED = ("anyOf", "allOf")
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
"""Formats of a text that Claude takes."""
_OF_CLAUDE: Mapping[str, Callable[[Mapping[str, Json]], bool]] = {
    **dict.fromkeys(
        (
            "type",
            "description",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "anyOf",
            "allOf",
            "enum",
            "const",
            "$defs",
            "$ref",
        ),
        lambda schema: True,
    ),
    "format": lambda schema: schema.get("type") == "string" and schema["format"] in _FORMATS,
    "minItems": lambda schema: schema.get("type") == "array" and schema["minItems"] in (0, 1),
}
"""Keyword → whether Claude takes it in this schema; what it does not take is said in the description."""
Step = Callable[[Json, str], Json]


def strict(schema: Json) -> Json:
    """The schema as OpenAI's strict mode takes it: every property required, no other allowed.

    Raises `UsageError`, naming the place, for what has no strict form: an answer that is no object, an object with any
    keys, a circle of references that carry descriptions.

    >>> strict({"type": "object", "properties": {"n": {"type": "integer", "default": None}}})
    {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'], 'additionalProperties': False}
    """
    root = _inlined(schema, schema, "") if "$ref" in schema else schema
    if root.get("type") != "object":
        raise UsageError("output: a reply's form is an object; put a list or a union under a field of one")
    return _strict(root, schema, "output", ())


def _strict(schema: Json, root: Json, path: str, within: tuple[str, ...]) -> Json:
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema and len(schema) > 1:
        if schema["$ref"] in within:
            raise UsageError(
                f"{path}: refers to itself with a description beside it, which has no strict form: leave the description out"
            )
        return _strict(_inlined(schema, root, path), root, path, (*within, schema["$ref"]))
    plain = _alone(_unified(schema))
    made = _walked(plain, path, lambda inner, at: _strict(inner, root, at, within))
    if made.get("default", made) is None:
        del made["default"]
    if "properties" in made:
        made["required"] = list(made["properties"])
    if made.get("type") == "object" and made.setdefault("additionalProperties", False) is not False:
        raise UsageError(
            f"{path}: an object with any keys has no strict form: name its fields, or use a list of key and value"
        )
    return made


def claude(schema: Json) -> Json:
    """The schema as Claude takes it; bounds and patterns it does not take stand in the description.

    >>> claude({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}})["properties"]["n"]
    {'type': 'integer', 'description': 'minimum: 1'}
    """
    return _claude(schema, "output")


def _claude(schema: Json, path: str) -> Json:
    if not isinstance(schema, Mapping):
        return schema
    plain = _walked(_unified(schema), path, _claude)
    if "$ref" in plain:
        return {key: value for key, value in plain.items() if key in ("$ref", "$defs")}
    made = {key: value for key, value in plain.items() if key in _OF_CLAUDE and _OF_CLAUDE[key](plain)}
    rest = [f"{key}: {value}" for key, value in plain.items() if key not in made]
    if rest:
        made["description"] = "\n\n".join([*([made["description"]] if "description" in made else []), ", ".join(rest)])
    if "enum" in made or "const" in made:
        made.pop("type", None)
    if made.get("type") == "object":
        made.setdefault("properties", {})
        made["additionalProperties"] = False
    return made


def _walked(schema: Mapping[str, Json], path: str, step: Step) -> dict[str, Json]:
    """The schema with `step` made in each schema inside it."""
    made = dict(schema)
    for keyword in _NAMED:
        if isinstance(made.get(keyword), Mapping):
            made[keyword] = {name: step(inner, f"{path}.{name}") for name, inner in made[keyword].items()}
    for keyword in _LISTED:
        if isinstance(made.get(keyword), list):
            made[keyword] = [step(inner, f"{path}.{keyword}[{index}]") for index, inner in enumerate(made[keyword])]
    if isinstance(made.get("items"), Mapping):
        made["items"] = step(made["items"], f"{path}[]")
    return made


def _unified(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {"anyOf" if key == "oneOf" else key: value for key, value in schema.items() if key != "discriminator"}


def _alone(schema: dict[str, Json]) -> dict[str, Json]:
    """`allOf` of one schema is that schema."""
    listed = schema.get("allOf")
    if not isinstance(listed, list) or len(listed) != 1:
        return schema
    return {**{key: value for key, value in schema.items() if key != "allOf"}, **listed[0]}


def _inlined(schema: Mapping[str, Json], root: Json, path: str) -> Json:
    """What a reference with more beside it says; what stands beside it wins."""
    target: Any = root
    for step in str(schema["$ref"]).removeprefix("#/").split("/"):
        target = target.get(step) if isinstance(target, Mapping) else None
    if not isinstance(target, Mapping):
        raise UsageError(f"{path or 'output'}: {schema['$ref']} names nothing in the schema")
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
