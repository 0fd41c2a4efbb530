"""Tools that are called with text instead of named arguments: free text, or text that a grammar allows.

Takes a format and a function's schema; gives the definition of a custom tool, which a wire without custom tools takes
as a function of one text. Knows no wire. The format is spelled as
`openai/types/shared_params/custom_tool_input_format.py` (3.52) spells it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from contextkit.canonical import Json
from contextkit.errors import InvalidTool

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
