"""What a function's docstring and signature tell a model, and a model's arguments as what the function takes.

`read_docstring` reads Google, NumPy and Sphinx style; the parser is our own because its output stands in every request:
another library's release must not move it. `read_signature` gives JSON Schema, the same bytes in every process:
properties in the order of the signature, keywords of nested schemas sorted, no titles. `misfit` gives the first place
where arguments do not fit a schema somebody wrote by hand; it passes over what it does not know (`$ref`, `anyOf`,
formats), so nothing that fits is ever refused. `custom` makes the definition of a tool that is called with text, free or
in a grammar, in the form of `openai/types/shared_params/custom_tool_input_format.py` (3.52).
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from contextkit.canonical import Json, canonical
from contextkit.errors import InvalidCall, InvalidTool

_PARAMETERS = "Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters"
_OTHERS = "Returns?|Yields?|Raises|Warns|Receives|Except|Exceptions"
_GOOGLE = re.compile(rf"(?:(?P<parameters>{_PARAMETERS})|{_OTHERS}):\s*")
"""A Google heading, alone on a line that is not indented."""
_GOOGLE_ITEM = re.compile(r"\*{0,2}(?P<names>\w+)(?:\s*\(.*?\))?\s*:(?:\s+(?P<text>.*))?")
"""`name (type): text`."""
_NUMPY = re.compile(rf"(?:(?P<parameters>{_PARAMETERS})|{_OTHERS})\s*")
"""A NumPy heading, underlined by the line after it."""
_NUMPY_ITEM = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)(?:\s*:.*)?")
"""`name : type` or `one, two : type`; the text stands below, indented."""
_UNDERLINE = re.compile(r"\s*-{3,}\s*")
_SPHINX = re.compile(
    r":(?:(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*?\s)?\*{0,2}(?P<names>\w+)"
    r"|(?:type|returns?|rtype|yields?|ytype|raises?|except|exception)\b[^:]*):(?:\s+(?P<text>.*))?"
)
"""`:param type name: text`, or a field that is not about a parameter."""


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a docstring a model is shown."""

    description: str
    """Summary and body, up to the first section about parameters, returns or errors."""
    parameters: dict[str, str]
    """Parameter name → its text, line breaks kept."""


def read_docstring(text: str) -> Docstring:
    """The description and the parameter texts of a docstring.

    >>> read_docstring('''Search the web.
    ...
    ...     Args:
    ...         query (str): What to look for,
    ...             in plain words.
    ...     ''')
    Docstring(description='Search the web.', parameters={'query': 'What to look for,\\nin plain words.'})
    """
    lines = inspect.cleandoc(text).splitlines()
    description: list[str] = []
    for number, line in enumerate(lines):
        if _opens_section(lines, number):
            break
        description.append(line)
    return Docstring("\n".join(description).strip(), dict(_parameters(lines)))


def _opens_section(lines: list[str], number: int) -> bool:
    return bool(_GOOGLE.fullmatch(lines[number]) or _SPHINX.fullmatch(lines[number]) or _numpy_heading(lines, number))


def _numpy_heading(lines: list[str], number: int) -> re.Match[str] | None:
    is_underlined = number + 1 < len(lines) and _UNDERLINE.fullmatch(lines[number + 1])
    return _NUMPY.fullmatch(lines[number]) if is_underlined else None


def _parameters(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        if (heading := _numpy_heading(lines, number)) and heading["parameters"]:
            yield from _items(_until_heading(lines, number + 2), _NUMPY_ITEM)
        elif (heading := _GOOGLE.fullmatch(line)) and heading["parameters"]:
            yield from _items(
                inspect.cleandoc("\n" + "\n".join(_indented(lines[number + 1 :]))).splitlines(), _GOOGLE_ITEM
            )
        elif (field := _SPHINX.fullmatch(line)) and field["names"]:
            yield field["names"], _joined([field["text"] or "", *_until_blank(lines[number + 1 :])])


def _items(lines: Iterable[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Lines that are not indented open an item; the indented ones below belong to it."""
    names: list[str] = []
    texts: list[str] = []
    for line in [*lines, "end"]:
        if line and not line[0].isspace():
            yield from ((name, _joined(texts)) for name in names)
            item = pattern.fullmatch(line)
            names = re.findall(r"\w+", item["names"]) if item else []
            texts = [item.groupdict().get("text") or ""] if item else []
        else:
            texts.append(line)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line and not line[0].isspace():
            return
        yield line


def _until_heading(lines: list[str], start: int) -> Iterator[str]:
    """A NumPy section ends at the next line that is underlined, whatever its name."""
    for number in range(start, len(lines)):
        if number + 1 < len(lines) and lines[number] and _UNDERLINE.fullmatch(lines[number + 1]):
            return
        yield lines[number]


def _until_blank(lines: Iterable[str]) -> Iterator[str]:
    """The lines that continue a Sphinx field."""
    for line in lines:
        if not line.strip() or _SPHINX.fullmatch(line):
            return
        yield line


def _joined(lines: list[str]) -> str:
    """The first line as it stands, the others without their common indent."""
    return inspect.cleandoc("\n".join(lines)).strip()


if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
    from pydantic_core import ErrorDetails

ECHO = 80
"""Longest piece of an argument that an error repeats, in characters."""
_DISPLAYED = 20
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
    lines = [f"- {_path(detail['loc'])}: {_mistake(detail)}" for detail in details[:_DISPLAYED]]
    more = [f"- and {len(details) - _DISPLAYED} more"] if len(details) > _DISPLAYED else []
    text = "\n".join([f"the arguments do not fit tool {tool!r}; correct them and call it again:", *lines, *more])
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate could not be sent back


def _path(location: tuple[int | str, ...]) -> str:
    """`filters[0].field`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return short("".join(steps).lstrip(".")) or "arguments"


_MISTAKES = {"missing": "is required and was not given", "extra_forbidden": "is not a parameter of this tool"}
"""Mistakes that have nothing to do with a value."""


def _mistake(detail: ErrorDetails) -> str:
    return _MISTAKES.get(detail["type"]) or f"{_shortened(detail)}, not {short(_displayed(detail['input']))}"


def _shortened(detail: ErrorDetails) -> str:
    """The message, with whatever it repeats of the value cut; lists of what is allowed stay whole."""
    message, value = detail["msg"], detail["input"]
    echoes: Iterator[str] = (str(item) for item in (value, repr(value), detail.get("ctx", {}).get("tag", "")))
    for echo in sorted(echoes, key=len, reverse=True):
        message = message.replace(echo, short(echo)) if len(echo) > ECHO else message
    return message


def _displayed(value: object) -> str:
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


_TYPES: Mapping[str, Callable[[Json], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        value.is_integer() if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)
    ),
}
_WORDS = {
    "object": "a JSON object",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "number": "a number",
    "integer": "an integer",
}
"""Type → as a model is told of it."""


def misfit(schema: Json, value: Json, path: str = "") -> str | None:
    """The first place where `value` does not fit, None where there is none.

    >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    >>> misfit(schema, {"n": "many"}), misfit(schema, {}), misfit(schema, {"n": 2.0})
    ('n: must be an integer, not text', 'n: is required and was not given', None)
    """
    return next(_misfits(schema, value, path), None)


def _misfits(schema: Json, value: Json, path: str) -> Iterator[str]:
    if not isinstance(schema, Mapping) or "$ref" in schema or (schema.get("nullable") is True and value is None):
        return iter(())
    return chain.from_iterable(
        check(schema[word], value, path, schema) for word, check in _CHECKS.items() if word in schema
    )


def _type(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    names = [given] if isinstance(given, str) else given
    if (
        isinstance(names, list)
        and all(name in _TYPES for name in names)
        and not any(_TYPES[name](value) for name in names)
    ):
        yield f"{_at(path)}: must be {' or '.join(_WORDS[name] for name in names)}, not {_called(value)}"


def _enum(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(given, list) and not any(_same(value, one) for one in given):
        yield f"{_at(path)}: must be one of {', '.join(map(repr, given))}"


def _required(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(given, list) and isinstance(value, Mapping):
        yield from (f"{_at(path, name)}: is required and was not given" for name in given if name not in value)


def _properties(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(given, Mapping) and isinstance(value, Mapping):
        for name in given:
            if name in value:
                yield from _misfits(given[name], value[name], _at(path, name))


def _additional(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    known = schema.get("properties", {})
    if (
        given is False
        and "patternProperties" not in schema
        and isinstance(value, Mapping)
        and isinstance(known, Mapping)
    ):
        yield from (f"{_at(path, name)}: is not a parameter of this tool" for name in value if name not in known)


def _fitting_items(given: Json, value: Json, path: str, schema: Mapping[str, Json]) -> Iterator[str]:
    if isinstance(value, list | tuple) and "prefixItems" not in schema:
        for index, item in enumerate(value):
            yield from _misfits(given, item, f"{path}[{index}]")


_CHECKS: Mapping[str, Callable[[Any, Json, str, Mapping[str, Json]], Iterator[str]]] = {
    "type": _type,
    "enum": _enum,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _fitting_items,
}


def _called(value: Json) -> str:
    return next((_WORDS[name] for name, holds in _TYPES.items() if holds(value)), type(value).__name__)


def _at(path: str, name: str = "") -> str:
    """Where something stands, as the arguments of a function are named; the whole of them, where nothing is named."""
    return ".".join(part for part in (path, name) if part) or "arguments"


def _same(one: Json, other: Json) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


SYNTAXES = ("lark", "regex")


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a tool may be called with: every text that `definition` allows, and no other."""

    syntax: str
    """`lark` or `regex`."""
    definition: str
    """The grammar."""

    def __post_init__(self) -> None:
        """Raises `InvalidTool` for a syntax there is not, and for a grammar that says nothing."""
        if self.syntax not in SYNTAXES or not isinstance(self.definition, str) or not self.definition.strip():
            raise InvalidTool(
                f"Grammar({self.syntax!r}, …): a grammar is a text in {' or '.join(SYNTAXES)}; write Grammar.lark(…)"
            )

    @classmethod
    def lark(cls, definition: str) -> Grammar:
        """A context-free grammar as Lark writes it.

        >>> Grammar.lark('start: "SELECT " /[a-z]+/').syntax
        'lark'
        """
        return cls("lark", definition)

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """A regular expression that the whole text fits."""
        return cls("regex", pattern)


Format = Grammar | Literal["text"]
"""A grammar, or `"text"` for any text."""


def custom(definition: dict[str, Json], text_format: Format) -> Json:
    """A function's definition as that of a custom tool.

    Wires without them read the grammar in the description of its one parameter.

    Raises `InvalidTool` unless the function takes exactly one text.
    """
    name, parameters = definition["name"], definition["parameters"]
    taken = list(parameters["properties"].items())
    if len(taken) != 1 or taken[0][1].get("type") != "string":
        raise InvalidTool(
            f"tool {name!r}: with format=… it is called with one text, so it takes one parameter of type str"
        )
    if text_format == "text":
        return {**definition, "format": {"type": "text"}}
    if not isinstance(text_format, Grammar):
        raise InvalidTool(
            f"tool {name!r}: format is Grammar.lark(…), Grammar.regex(…) or 'text', not {type(text_format).__name__}"
        )
    [(parameter, schema)] = taken
    words = [schema["description"]] if "description" in schema else []
    told = "\n".join([*words, f"A text of this {text_format.syntax} grammar:", text_format.definition])
    written = {"type": "grammar", "syntax": text_format.syntax, "definition": text_format.definition}
    return {
        **definition,
        "parameters": {**parameters, "properties": {parameter: {**schema, "description": told}}},
        "format": written,
    }


def check_format(name: str, written: Json) -> None:
    """Raises `InvalidTool` for a format that no provider takes."""
    kind = written.get("type") if isinstance(written, Mapping) else None
    if kind == "grammar" and written.keys() == {"type", "syntax", "definition"}:
        Grammar(written["syntax"], written["definition"])
    elif written != {"type": "text"}:
        raise InvalidTool(
            f'tool {name!r}: its format is {{"type": "text"}} or {{"type": "grammar", "syntax", "definition"}}'
        )


def text_parameter(definition: Mapping[str, Json]) -> str:
    """The parameter that takes the text of a tool that is called with text; "" for one that is called with named
    arguments.

    >>> text_parameter({"native": {"wire": "openai_responses", "block": {"type": "custom", "name": "sql"}}})
    'input'
    """
    if "format" in definition:
        return str(next(iter(definition["parameters"].get("properties", {})), "input"))
    native = definition.get("native") or {"block": {}}
    return "input" if native["block"].get("type") == "custom" and "input_schema" not in native["block"] else ""
