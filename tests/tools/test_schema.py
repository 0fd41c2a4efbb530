"""The schema a signature becomes: judged by the JSON Schema meta-schema, the SDKs' own types, and other processes."""

from __future__ import annotations

import enum
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional, Union

import pytest
from anthropic.types import ToolParam
from jsonschema import Draft202012Validator
from openai.types.responses import FunctionToolParam
from openai.types.shared_params import FunctionDefinition
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, with_config

from contextkit.errors import InvalidTool
from contextkit.tools.tool import Tool, tool

if TYPE_CHECKING:
    from some_package_nobody_has import Missing  # type: ignore[import-not-found]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Node(BaseModel):
    """A node of a tree."""

    title: str = Field(title="Noise", description="Its title.")
    children: list[Node] = []
    tags: set[str] = {"d", "a", "c", "b"}


class Pair(NamedTuple):
    left: int
    right: str


@tool
def everything(
    query: str,
    mode: Literal["web", "all", "news"],
    schema: Optional[int],  # noqa: UP045 - both spellings are what users write
    node: Node,
    zebra: Union[int, str] = 3,  # noqa: UP007
    apple: str | None = None,
    colour: Colour = Colour.RED,
    point: Point = Point(1),  # noqa: B008
    pair: Pair = Pair(1, "b"),  # noqa: B008
    kinds: frozenset[str] = frozenset({"x", "y", "z"}),
    sizes: tuple[int, float] = (1, 2.5),
    table: dict[str, list[int]] = {},  # noqa: B006
    when: date = date(2026, 1, 2),
    price: Decimal = Decimal("1.5"),
    anything: Any = None,
    model_config: bool = False,
    _hidden: int = 0,
    *,
    copy: Annotated[str, "Where to."] = "here",
    limit: Annotated[int, Field(description="At most.", ge=1)] = 10,
    offset: int = Field(0, description="From here.", ge=0),
) -> Missing:
    """Do everything at once."""
    return locals()


@tool
def nothing() -> None:
    """Do nothing."""


BOTH = pytest.mark.parametrize("made", [everything, nothing], ids=lambda made: made.name)


@BOTH
def test_schema_is_valid_json_schema(made: Tool) -> None:
    Draft202012Validator.check_schema(made.parameters)


@BOTH
def test_sdks_accept_the_definition(made: Tool) -> None:
    name, description, parameters = (made.definition[key] for key in ("name", "description", "parameters"))
    forbid = ConfigDict(extra="forbid")
    anthropic = {"name": name, "description": description, "input_schema": parameters}
    assert TypeAdapter(with_config(forbid)(ToolParam)).validate_python(anthropic) == anthropic
    assert TypeAdapter(with_config(forbid)(FunctionDefinition)).validate_python(made.definition) == made.definition
    flat = {"type": "function", "strict": False, **made.definition}
    assert TypeAdapter(FunctionToolParam).validate_python(flat) == flat


def test_properties_and_required_stand_in_the_order_of_the_signature() -> None:
    first = "query mode schema node zebra apple colour point pair kinds"
    then = "sizes table when price anything model_config _hidden copy limit offset"
    assert list(everything.parameters["properties"]) == [*first.split(), *then.split()]
    assert everything.parameters["required"] == ["query", "mode", "schema", "node"]


def test_schema_says_what_the_types_say() -> None:
    schema = everything.parameters
    properties = schema["properties"]
    assert properties["mode"] == {"enum": ["web", "all", "news"], "type": "string"}
    assert properties["schema"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert properties["zebra"] == {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 3}
    assert properties["point"] == {"$ref": "#/$defs/Point", "default": {"x": 1, "y": 0}}
    assert properties["copy"] == {"default": "here", "description": "Where to.", "type": "string"}
    assert properties["limit"] == {"default": 10, "description": "At most.", "minimum": 1, "type": "integer"}
    assert properties["offset"] == {"default": 0, "description": "From here.", "minimum": 0, "type": "integer"}
    assert properties["anything"] == {"default": None}
    assert schema["$defs"]["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert schema["additionalProperties"] is False
    assert list(schema) == ["type", "properties", "required", "additionalProperties", "$defs"]


def test_no_parameters_is_an_empty_object() -> None:
    assert nothing.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_titles_go_but_a_property_named_title_stays() -> None:
    @tool
    def file_under(title: str, node: Node, options: dict[str, str] = {"title": "kept"}) -> str:  # noqa: B006
        """File something."""
        return title

    schema = file_under.parameters
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["options"]["default"] == {"title": "kept"}
    assert schema["$defs"]["Node"]["properties"]["title"] == {"description": "Its title.", "type": "string"}
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "title" not in schema["$defs"]["Node"]


def test_default_of_a_set_is_sorted() -> None:
    assert everything.parameters["properties"]["kinds"]["default"] == ["x", "y", "z"]
    assert everything.parameters["$defs"]["Node"]["properties"]["tags"]["default"] == ["a", "b", "c", "d"]


def test_two_classes_of_one_name_keep_apart() -> None:
    def inner() -> tuple[type, type]:
        class One(BaseModel):
            x: int

        first = One

        class One(BaseModel):  # type: ignore[no-redef]
            y: int

        return first, One

    first, second = inner()

    def both(a, b):  # type: ignore[no-untyped-def]
        """Take both."""

    both.__annotations__ = {"a": first, "b": second}
    schema = tool(both).parameters
    assert len(schema["$defs"]) == 2
    assert schema["properties"]["a"] != schema["properties"]["b"]
    Draft202012Validator(schema).validate({"a": {"x": 1}, "b": {"y": 1}})


def test_default_that_json_cannot_hold_leaves_the_parameter_optional() -> None:
    unset = object()

    @tool
    def update(name: str, value: Any = unset) -> bool:
        """Update."""
        return value is unset

    assert update.parameters["required"] == ["name"]
    assert "default" not in update.parameters["properties"]["value"]
    assert update.run({"name": "a"}) is True


def test_descriptions_come_from_the_docstring() -> None:
    """Every style of it: in `test_docstring.py`."""

    @tool
    def find(query: str, limit: int = 3) -> str:
        """Find it.

        In the index.

        Args:
            query (str): What to look for,
                in plain words.
            limit: At most.

        Returns:
            Text.
        """
        return query

    assert find.description == "Find it.\n\nIn the index."
    assert find.parameters["properties"]["query"]["description"] == "What to look for,\nin plain words."
    assert find.parameters["properties"]["limit"]["description"] == "At most."


def test_annotation_wins_over_docstring() -> None:
    @tool
    def find(a: Annotated[int, "From the type."], b: Annotated[int, Field(description="From the field.")]) -> int:
        """Find.

        Args:
            a: from the docstring
            b: from the docstring
        """
        return a + b

    assert [item["description"] for item in find.parameters["properties"].values()] == [
        "From the type.",
        "From the field.",
    ]


_PROGRAM = """
from contextkit.tools.tool import Toolbox
from pydantic import BaseModel
from typing import Literal
import enum
class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
class Node(BaseModel):
    tags: set[str] = {"d", "a", "c", "b"}
    nested: dict[str, frozenset[str]] = {"k": frozenset({"one", "two", "three"})}
def find(node: Node, mode: Literal["x", "b", "a"], colour: Colour = Colour.BLUE, kinds: frozenset[str] = frozenset({"p", "q", "r", "s"})):
    '''Find.'''
print(Toolbox([find]).tools[0].body.decode())
"""


def test_other_processes_and_hash_seeds_make_the_same_bytes() -> None:
    runs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM], env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(runs) == 1
    assert b'["p","q","r","s"]' in runs.pop()


def test_import_pulls_in_no_pydantic() -> None:
    heavy = "{'pydantic', 'anthropic', 'openai', 'mcp'}"
    program = f"import sys, contextkit.tools.tool, contextkit.tools.render; print({heavy} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()
        == "set()"
    )


def test_bytes_of_a_definition_are_pinned() -> None:
    """They stand in every request: a change here re-bills every conversation once."""

    @tool
    def search(query: Annotated[str, "What for."], limit: int = 10) -> str:
        """Search the web."""
        return query

    assert search.body == (
        b'{"name":"search","description":"Search the web.","parameters":{"type":"object","properties":{"query":{"description":"What for.",'
        b'"type":"string"},"limit":{"default":10,"type":"integer"}},"required":["query"],"additionalProperties":false}}'
    )


class Opaque:
    pass


def untyped(a: int, b) -> None:  # type: ignore[no-untyped-def]
    """Do."""


def many(*values: int) -> None:
    """Do."""


def positional(a: int, /, b: int) -> None:
    """Do."""


def opaque(a: int, b: list[Opaque]) -> None:
    """Do."""


def unresolved(b: Missing) -> None:
    """Do."""


def generator(b: int):  # type: ignore[no-untyped-def]
    """Do."""
    yield b


def undocumented(b: int) -> None:
    pass


class Thing:
    def method(self, b: int) -> None:
        """Do."""


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (untyped, "tool 'untyped': parameter 'b' has no type; annotate it, as in b: str"),
        (many, "tool 'many': parameter 'values' takes any number of values: declare one parameter of type list[…]"),
        (
            positional,
            "tool 'positional': parameter 'a' is positional-only, but a model names its arguments: remove the '/'",
        ),
        (
            opaque,
            "tool 'opaque': the type of parameter 'b' has no JSON Schema (Unable to generate pydantic-core schema for",
        ),
        (
            unresolved,
            "tool 'unresolved': the type of parameter 'b' cannot be read (name 'Missing' is not defined); define or import",
        ),
        (generator, "tool 'generator': a generator has no single result; return a value"),
        (undocumented, "tool 'undocumented': it has no docstring; write one, it is what the model reads"),
        (Thing.method, "tool 'method': 'self' is not bound; make the tool of the bound method: tool(thing.method)"),
        (
            functools.partial(undocumented, b=1),
            "a tool is made of a function or a bound method, not partial; wrap it in a def",
        ),
        (lambda: None, "tool '<lambda>': a name is 1 to 64 of a-z A-Z 0-9 _ - ; give it another"),
    ],
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else "",
)
def test_error_names_function_and_parameter(function: Callable[..., object], text: str) -> None:
    with pytest.raises(InvalidTool) as caught:
        tool(function)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("name", ["", "a.b", "x" * 65, "a\n"])
def test_name_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(InvalidTool, match="a name is 1 to 64 of"):
        tool(name=name, description="Do.")(nothing.function)  # type: ignore[arg-type]


def test_name_and_description_can_be_given() -> None:
    @tool(name="web-search", description="Look it up.")
    def search(query: str) -> str:
        """Internal words.

        Args:
            query: What for.
        """
        return query

    assert (search.name, search.description) == ("web-search", "Look it up.")
    assert search.parameters["properties"]["query"]["description"] == "What for."
