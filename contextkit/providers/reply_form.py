"""The form of a reply (`output=`): a pydantic model or a JSON schema, as OpenAI's strict subset and as Claude take it.

A schema stands in front of the prompt or keys it, so it is set once: on OpenAI and Gemini another one loses everything, on
Claude the messages. Responses from gpt-5.6 on change it behind the prompt (`OutputChanged`). What is required follows the
SDKs (openai 3.52 lib/_pydantic.py, anthropic 2.11 lib/_parse/_transform.py), without titles, which only cost tokens, and
with `anyOf` for `oneOf`.

Sources: openai 3.52 (shared_params/response_format_json_schema.py,
responses/response_format_text_json_schema_config_param.py,
responses/response_configuration_update_item_param_param.py), anthropic 2.11 (types/json_output_format_param.py),
botocore 1.44 bedrock-runtime `OutputConfig`, google.genai.types.GenerateContentConfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_origin

from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply, UsageError
from contextkit.log.entry import Change
from contextkit.tools.signature import without_titles

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
    plain, alone = _unified(schema), schema.get("allOf")
    if isinstance(alone, list) and len(alone) == 1:  # `allOf` of one schema is that schema
        del plain["allOf"]
        plain.update(alone[0])
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


def _inlined(schema: Mapping[str, Json], root: Json, path: str) -> Json:
    """Merge a reference with the fields beside it, which win."""
    target: Any = root
    for step in str(schema["$ref"]).removeprefix("#/").split("/"):
        target = target.get(step) if isinstance(target, Mapping) else None
    if not isinstance(target, Mapping):
        raise UsageError(f"{path or 'output'}: {schema['$ref']} names nothing in the schema")
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


FIELD = "output"
"""What a caller calls it, at every provider and for one request."""


IN_BAND = "configuration_update"
"""The way to tell an event that can change it behind the prompt."""


_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")


_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Output:
    """The form of a reply."""

    name: str
    """What it is called: 1 to 64 of a-z A-Z 0-9 _ -."""
    schema: Json
    """JSON Schema of it."""
    kind: Any = None
    """The type its value is of; None for plain JSON."""


def output_of(given: Any) -> Output:
    """A pydantic model, a dataclass, any other type pydantic knows, or a JSON schema, as the form of a reply.

    Raises `UsageError` for anything else.

    >>> output_of({"title": "Price", "type": "object", "properties": {"usd": {"type": "number"}}}).name
    'Price'
    """
    if isinstance(given, Output):
        return given
    if isinstance(given, Mapping):
        return Output(_name(str(given.get("title") or FIELD)), without_titles(dict(given)))
    if not isinstance(given, type) and get_origin(given) is None:
        raise UsageError(f"{FIELD}= is a pydantic model, a type or a JSON schema, not {type(given).__name__}")
    return _of_type(given)


def _of_type(given: Any) -> Output:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        schema = TypeAdapter(given).json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        raise UsageError(
            f"{FIELD}={getattr(given, '__name__', given)}: it has no JSON schema: use a pydantic model"
        ) from error
    return Output(_name(getattr(given, "__name__", FIELD)), without_titles(schema), given)


def _name(text: str) -> str:
    return _FOREIGN.sub("_", text)[:_LONGEST_NAME] or FIELD


def _openai(output: Output) -> dict[str, Json]:
    return {"name": output.name, "schema": strict(output.schema), "strict": True}


def _converse(output: Output) -> Json:
    return {"jsonSchema": {"schema": canonical(claude(output.schema)).decode(), "name": output.name}}


FIELDS: Mapping[str, Callable[[Output], dict[str, dict[str, Json]]]] = {
    "openai_chat": lambda output: {"response_format": {"type": "json_schema", "json_schema": _openai(output)}},
    "openai_responses": lambda output: {"text": {"format": {"type": "json_schema", **_openai(output)}}},
    "anthropic_messages": lambda output: {
        "output_config": {"format": {"type": "json_schema", "schema": claude(output.schema)}}
    },
    "bedrock_converse": lambda output: {
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": _converse(output)}}
    },
    "gemini": lambda output: {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": output.schema},
    },
}
"""Wire → the fields that ask for a form."""


def lowered(
    wire: str, params: Mapping[str, Any], own: Mapping[str, Json] | None = None
) -> tuple[Output | None, dict[str, Json]]:
    """The form asked for, and the parameters with it in the words of `wire`.

    `own` are those of the provider, for one request.

    `output=None` takes the provider's out of one request. Raises `UsageError` where the field says a form already.
    """
    plain = {name: value for name, value in params.items() if name != FIELD}
    if FIELD not in params:
        return None, plain
    output = None if params[FIELD] is None else output_of(params[FIELD])
    for name, said in FIELDS[wire](output or Output(FIELD, {"type": "object", "properties": {}})).items():
        if taken := (plain.get(name) or {}).keys() & said.keys():
            raise UsageError(f"{name}.{min(taken)} and {FIELD}= both say the form of a reply: leave one out")
        kept = {
            key: value
            for key, value in {**((own or {}).get(name) or {}), **(plain.get(name) or {})}.items()
            if key not in said
        }
        merged = {**kept, **(said if output else {})}
        if merged or name in plain or name in (own or {}):
            plain[name] = merged or None
    return output, plain


@dataclass(frozen=True, slots=True)
class OutputChanged(Change):
    """Another form of reply from here on, `None` for plain text: `context.notice(OutputChanged(Invoice))`.

    Responses from gpt-5.6 on take it behind the prompt; elsewhere `notice` raises `UsageError` and says what a change
    would cost.
    """

    kind = "output"
    output: Any
    """A pydantic model, a type, a JSON schema, or None."""

    @property
    def text(self) -> str:
        """The text for a model that takes no such setting."""
        if self.output is None:
            return "Answer in plain text from here on."
        output = output_of(self.output)
        return f"Answer from here on with JSON alone, of this schema ({output.name}):\n{canonical(strict(output.schema)).decode()}"

    @property
    def body(self) -> Json:
        """Body of the `notice` entry; the schema in it is the one that is sent, frozen."""
        said = {} if self.output is None else {key: _openai(output_of(self.output))[key] for key in ("name", "schema")}
        return {"text": self.text, "event": {"type": self.kind, **said}}


def format_of(event: Mapping[str, Json]) -> Json:
    """An event as `text.format` of Responses."""
    if "schema" not in event:
        return {"type": "text"}
    return {"type": "json_schema", "name": event["name"], "schema": event["schema"], "strict": True}


def in_force(event: Mapping[str, Json] | None, provider: Any) -> Output | None:
    """The form replies have now: that of the last event, where the provider takes it, else the provider's.

    None for plain text.
    """
    if event is None or provider.noticing != IN_BAND:
        own: Output | None = getattr(provider, FIELD, None)
        return own
    return Output(event["name"], event["schema"]) if "schema" in event else None


def read(text: str, stop: str | None, output: Output) -> Any:
    """The value a reply says, of the type its form was made of; plain JSON where it was made of a schema.

    Raises `UnreadableReply`, without a word of the reply, where it is cut, refused, or of another form.
    """
    from pydantic import TypeAdapter, ValidationError

    if stop in ("truncated", "refused", "overflow"):
        raise UnreadableReply(f"the reply was {stop}, so it is no {output.name}: ask again, with more room for output")
    try:
        return TypeAdapter(Any if output.kind is None else output.kind).validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the reply"
        raise UnreadableReply(f"the reply is no {output.name}: {where}: {fault['type']}; ask again") from None


def out_of_band(provider: Any, n_tokens: int) -> str:
    """Return the remedy where a change of form cannot be announced behind the prompt; `n_tokens` of it would be paid
    for anew.
    """
    return (
        f"{provider.model.name} on {provider.wire} takes no other form of reply behind the prompt: the next request would pay for "
        f"{n_tokens:,} tokens (estimated) that are cached now. To pay once, context.provider = …({FIELD}=…), and to pay for one call, "
        f"context.request({FIELD}=…); a union of both forms from the beginning costs nothing"
    )
