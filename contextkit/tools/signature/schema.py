"""A function's typed signature as JSON Schema, and a model's arguments as what the function takes.

Takes a function and what its docstring says of the parameters, gives `Parameters`; knows nothing of tools or providers.
The schema is the same bytes in every process: properties in the order of the signature, keywords of nested schemas
sorted, no titles.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

from contextkit.canonical import Json, canonical
from contextkit.errors import InvalidCall, InvalidTool

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
    from pydantic_core import ErrorDetails

ECHO = 80
"""Longest piece of an argument that an error repeats, in characters."""
_SHOWN = 20
"""Mistakes listed in one error; the rest is counted."""

_REFUSED = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, but a model names its arguments: remove the '/'",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values: declare one parameter of type list[…]",
    inspect.Parameter.VAR_KEYWORD: "takes any name: declare each parameter, or one of type dict[str, …]",
}
"""Kinds of parameter a model cannot fill, and what to write instead."""

_SCHEMAS = {
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
}
_LISTS = {"anyOf", "allOf", "oneOf", "prefixItems"}
_NAMED = {"properties", "$defs", "patternProperties", "dependentSchemas"}
"""Keywords whose value is a schema, a list of schemas, named schemas; everywhere else `title` is data."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a function takes, for the model and from the model."""

    schema: Json
    """JSON Schema (draft 2020-12) of the arguments."""
    model: type[BaseModel]
    """The same as a pydantic model; field `p0` is the first parameter, so that no name clashes with pydantic's own."""
    names: tuple[str, ...]
    """Parameter names, in order."""
    with_default: frozenset[str]
    """Parameters the function itself fills when they are left out."""

    def bind(self, tool: str, arguments: Mapping[str, Json]) -> dict[str, object]:
        """Keyword arguments for the function, coerced to their types.

        Raises `InvalidCall` with a text for the model: which field, what is wrong with it, and at most `ECHO`
        characters of its value.
        """
        from pydantic import ValidationError

        try:
            values = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            raise InvalidCall(_for_the_model(tool, error)) from None
        return {
            name: getattr(values, f"p{index}")
            for index, name in enumerate(self.names)
            if f"p{index}" in values.model_fields_set or name not in self.with_default
        }


def read_signature(function: Callable[..., object], tool: str, described: Mapping[str, str]) -> Parameters:
    """The parameters of `function`; `described` holds the docstring's text for each.

    Raises `InvalidTool` naming the parameter that has no type, cannot be filled by name, or has a type no schema exists
    for.
    """
    from pydantic.fields import FieldInfo

    parameters = inspect.signature(function).parameters
    fields = {name: _field(function, tool, parameter, described.get(name)) for name, parameter in parameters.items()}
    model, schema = _modelled(tool, fields)
    own = (name for name, p in parameters.items() if p.default is not p.empty and not isinstance(p.default, FieldInfo))
    return Parameters(_composed(schema, tuple(fields)), model, tuple(fields), frozenset(own))


def _field(
    function: Callable[..., object], tool: str, parameter: inspect.Parameter, text: str | None
) -> tuple[Any, Any]:
    """Type and default of one parameter, as pydantic takes them."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    annotation = _annotation(function, tool, parameter)
    default = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        annotation, default = Annotated[annotation, default], ...
    own = FieldInfo.from_annotation(annotation)
    written = own.description or next((item for item in own.metadata if isinstance(item, str)), None) or text
    if default is ... and not own.is_required():
        return annotation, Field(alias=parameter.name, description=written, **_default(own))
    return annotation, Field(default, alias=parameter.name, description=written)


def _default(field: FieldInfo) -> dict[str, Any]:
    return {"default_factory": field.default_factory} if field.default_factory else {"default": field.default}


def _annotation(function: Callable[..., object], tool: str, parameter: inspect.Parameter) -> Any:
    if parameter.name in {"self", "cls"} and parameter.annotation is parameter.empty:
        raise InvalidTool(
            f"tool {tool!r}: {parameter.name!r} is not bound; make the tool of the bound method: tool(thing.{tool})"
        )
    if parameter.kind in _REFUSED:
        raise InvalidTool(f"tool {tool!r}: parameter {parameter.name!r} {_REFUSED[parameter.kind]}")
    if parameter.annotation is parameter.empty:
        raise InvalidTool(
            f"tool {tool!r}: parameter {parameter.name!r} has no type; annotate it, as in {parameter.name}: str"
        )
    return _resolved(function, tool, parameter)


def _resolved(function: Callable[..., object], tool: str, parameter: inspect.Parameter) -> Any:
    """The annotation as a type, one at a time: a return type that only a type checker can see is none of our business."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(holder, globalns=getattr(inner, "__globals__", {}), include_extras=True)[
            parameter.name
        ]
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise InvalidTool(
            f"tool {tool!r}: the type of parameter {parameter.name!r} cannot be read ({error}); define or import it at module level"
        ) from error


def _modelled(tool: str, fields: dict[str, tuple[Any, Any]]) -> tuple[type[BaseModel], Json]:
    """The pydantic model of the fields and its schema, or an error that names the field at fault."""
    try:
        return _model(fields)
    except _faults() as error:
        for name, field in fields.items():
            _probe(tool, name, field)
        raise InvalidTool(f"tool {tool!r}: its parameters have no JSON Schema ({_first_sentence(error)})") from None


def _probe(tool: str, name: str, field: tuple[Any, Any]) -> None:
    try:
        _model({name: field})
    except _faults() as error:
        raise InvalidTool(
            f"tool {tool!r}: the type of parameter {name!r} has no JSON Schema ({_first_sentence(error)}); "
            "use str, int, float, bool, list, dict, tuple, Literal, an Enum, a dataclass or a pydantic model"
        ) from None


def _faults() -> tuple[type[Exception], ...]:
    """What pydantic raises for a type it cannot describe."""
    from pydantic.errors import PydanticUserError
    from pydantic_core import SchemaError

    return PydanticUserError, SchemaError, NameError, TypeError


def _model(fields: dict[str, tuple[Any, Any]]) -> tuple[type[BaseModel], Json]:
    from pydantic import ConfigDict, create_model

    columns: dict[str, Any] = {f"p{index}": field for index, field in enumerate(fields.values())}
    model = create_model("_ToolArguments", __config__=ConfigDict(extra="forbid"), **columns)
    return model, model.model_json_schema(schema_generator=_generator())


@cache
def _generator() -> type[GenerateJsonSchema]:
    """pydantic's generator, with defaults that read the same in every process."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
            """A default that JSON cannot hold is left out of the schema; the parameter is optional all the same."""

        def encode_default(self, dft: Any) -> Any:
            return _in_order(dft, super().encode_default(dft))

    return Generator


def _in_order(value: Any, encoded: Json) -> Json:
    """`encoded`, the JSON form of `value`, with its sets sorted: their own order changes with PYTHONHASHSEED."""
    if isinstance(value, set | frozenset):
        return sorted(map(_in_order, value, encoded), key=canonical)
    if isinstance(value, list | tuple):
        return list(map(_in_order, value, encoded))
    if isinstance(encoded, dict):
        inner = value.values() if isinstance(value, dict) else (getattr(value, name, None) for name in encoded)
        return dict(zip(encoded, map(_in_order, inner, encoded.values()), strict=True))
    return encoded


def _composed(schema: Json, names: tuple[str, ...]) -> Json:
    """The schema in the order a reader expects: what it is, its properties, which are required, then the definitions."""
    plain = without_titles(schema)
    properties, required = plain.get("properties", {}), plain.get("required", [])
    composed: dict[str, Json] = {"type": "object", "properties": {name: properties[name] for name in names}}
    if required:
        composed["required"] = [name for name in names if name in required]
    composed["additionalProperties"] = False
    return composed | ({"$defs": plain["$defs"]} if "$defs" in plain else {})


def without_titles(schema: Json) -> Json:
    """A schema without its titles: pydantic titles every schema with its own name again, and a model would pay for
    each.

    >>> without_titles({"title": "A", "type": "object", "properties": {"title": {"title": "Title", "type": "string"}}})
    {'type': 'object', 'properties': {'title': {'type': 'string'}}}
    """
    if not isinstance(schema, dict):
        return schema
    return {keyword: _nested(keyword, value) for keyword, value in schema.items() if keyword != "title"}


def _nested(keyword: str, value: Json) -> Json:
    if keyword in _NAMED:
        return {name: without_titles(item) for name, item in value.items()}
    if keyword in _LISTS:
        return [without_titles(item) for item in value]
    return without_titles(value) if keyword in _SCHEMAS else value


def _for_the_model(tool: str, error: ValidationError) -> str:
    details = error.errors(include_url=False)
    lines = [f"- {_path(detail['loc'])}: {_mistake(detail)}" for detail in details[:_SHOWN]]
    more = [f"- and {len(details) - _SHOWN} more"] if len(details) > _SHOWN else []
    text = "\n".join([f"the arguments do not fit tool {tool!r}; correct them and call it again:", *lines, *more])
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate could not be sent back


def _path(location: tuple[int | str, ...]) -> str:
    """`filters[0].field`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return short("".join(steps).lstrip(".")) or "arguments"


_MISTAKES = {"missing": "is required and was not given", "extra_forbidden": "is not a parameter of this tool"}
"""Mistakes that have nothing to do with a value."""


def _mistake(detail: ErrorDetails) -> str:
    return _MISTAKES.get(detail["type"]) or f"{_shortened(detail)}, not {short(_shown(detail['input']))}"


def _shortened(detail: ErrorDetails) -> str:
    """The message, with whatever it repeats of the value cut; lists of what is allowed stay whole."""
    message, value = detail["msg"], detail["input"]
    echoes: Iterator[str] = (str(item) for item in (value, repr(value), detail.get("ctx", {}).get("tag", "")))
    for echo in sorted(echoes, key=len, reverse=True):
        message = message.replace(echo, short(echo)) if len(echo) > ECHO else message
    return message


def _shown(value: object) -> str:
    """The value as the model wrote it."""
    return json.dumps(value, ensure_ascii=False, skipkeys=True, default=repr)


def short(text: str) -> str:
    """At most `ECHO` characters of `text`.

    >>> len(short("x" * 1000))
    80
    """
    return text if len(text) <= ECHO else text[: ECHO - 1] + "…"


def _first_sentence(error: BaseException) -> str:
    return " ".join(str(error).split()).partition(". ")[0]
