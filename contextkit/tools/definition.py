"""A tool as somebody else wrote it down, in our neutral form.

Takes a dict in the form of Anthropic, OpenAI (either endpoint), contextkit itself, or one MCP listing; gives a name and
a neutral definition: `{"name", "description", "parameters"}`, with `"format"` where it is called with text, or
`{"native": {"wire", "block"}}` for what only one provider understands, with `"instead"` a function for the others where
there is one. Knows nothing of functions.

Nothing is lost and nothing added: a provider's function tool that says more than name, description and schema
(`strict`, `defer_loading`, …), or less, stays native. The one exception is `cache_control`: where the marks stand is
the layout's to decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidTool, NotSerialisable
from contextkit.tools.signature import check_format

PORTABLE = 64
"""Longest name every provider accepts, in characters (openai/types/shared_params/function_definition.py)."""
_LONGEST = 128
"""Longest name any accepts: Anthropic's, whose 400 says `String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`."""
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
INVALID_ARGUMENTS = "INVALID_JSON"
"""Key under which arguments stand as text that were no JSON object, on wires that take back objects only.

Source: platform.claude.com, "Fine-grained tool streaming", Handling invalid JSON in tool responses."""
_NO_PARAMETERS: Json = {"type": "object", "properties": {}}
"""The schema of a definition that leaves it out (OpenAI: an empty parameter list)."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a function tool down."""

    wire: str
    """Whose way; `""` for the neutral one."""
    fits: Callable[[Mapping[str, Json]], bool]
    """Whether a definition is written this way."""
    frame: set[str]
    """Keys it has besides name, description and schema."""
    inside: str
    """Key of the frame under which those three stand, `""` for beside it."""
    schema: str
    """Key of the schema."""


FORMS: tuple[Form, ...] = (
    Form(
        "openai_chat",
        lambda d: d.get("type") == "function" and "function" in d,
        {"type", "function"},
        "function",
        "parameters",
    ),
    Form("openai_responses", lambda d: d.get("type") == "function", {"type"}, "", "parameters"),
    Form(
        "anthropic_messages",
        lambda d: d.get("type") in (None, "custom") and "input_schema" in d,
        set(),
        "",
        "input_schema",
    ),
    Form("", lambda d: d.get("type") is None and "name" in d, set(), "", "parameters"),
)
"""The first that fits is the one."""

_ANTHROPIC = re.compile(r".*_20\d{6}|tool_search_tool_(?:regex|bm25)|mcp_toolset")
"""Types of Anthropic's server tools: dated, or one of three (anthropic/types/tool_union_param.py)."""
_LABELS = ("name", "server_label", "mcp_server_name", "type")
"""Where a native block says what it is called, first found first."""


def read_definition(definition: Mapping[str, Json], wire: str = "") -> tuple[str, Json]:
    """Name and neutral definition of a tool in any known form; `wire` says whose a native block is, else its type does.

    Raises `InvalidTool` for a form we cannot read, a name no provider takes, a schema that is not an object's.

    >>> read_definition({"type": "web_search_20250305", "name": "web_search"})
    ('web_search', {'native': {'wire': 'anthropic_messages', 'block': {'type': 'web_search_20250305', 'name': 'web_search'}}})
    """
    if not isinstance(definition, Mapping):
        raise InvalidTool(f"a tool definition is a dict, not {type(definition).__name__}: {_FIELDS}")
    plain = _copied(definition)
    plain.pop("cache_control", None)
    form = next((form for form in FORMS if form.fits(plain)), None)
    return _read_native(plain, wire) if form is None else _read_function(plain, form)


def neutral(name: str, description: str, parameters: Json) -> Json:
    """The neutral definition of a function tool. Raises `InvalidTool` for a name or a schema no provider takes."""
    check_name(name)
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        raise InvalidTool(f'tool {name!r}: its schema must be an object\'s: {{"type": "object", "properties": {{…}}}}')
    if not isinstance(description, str):
        raise InvalidTool(f"tool {name!r}: its description must be text, not {type(description).__name__}")
    return {"name": name, "description": description, "parameters": parameters}


def check_name(name: object, longest: int = _LONGEST) -> None:
    """Raises `InvalidTool` for a name no provider takes; with `longest=PORTABLE`, for one that some do not."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > longest:
        raise InvalidTool(f"tool {name!r}: a name is 1 to {longest} of a-z A-Z 0-9 _ - ; give it another")


def sealed(name: str, definition: Json) -> bytes:
    """The bytes of a definition. Raises `InvalidTool` where JSON cannot carry it."""
    try:
        return canonical(definition)
    except NotSerialisable as error:
        raise InvalidTool(f"tool {name!r}: {error}") from error


def _copied(definition: Mapping[str, Json]) -> dict[str, Json]:
    """The definition, shared with nobody."""
    copied: dict[str, Json] = parse(sealed(str(definition.get("name", "?")), dict(definition)))
    return copied


def _read_function(plain: dict[str, Json], form: Form) -> tuple[str, Json]:
    inner = plain[form.inside] if form.inside else plain
    if not isinstance(inner, dict):
        raise InvalidTool(f"a tool definition has no object under {form.inside!r}; known forms: {_FIELDS}")
    parameters = inner.get(form.schema)
    definition = neutral(
        inner.get("name", ""), inner.get("description") or "", _NO_PARAMETERS if parameters is None else parameters
    )
    if not form.wire and "format" in inner:
        check_format(inner["name"], inner["format"])
        definition = {**definition, "format": inner["format"]}
    expected = form.frame | {"name", "description", form.schema} | ({"format"} & definition.keys())
    said = {*plain, *inner}
    if said - expected and not form.wire:
        unknown = ", ".join(sorted(said - expected))
        raise InvalidTool(
            f"tool {inner['name']!r}: {unknown} is unknown; a neutral definition has name, description, parameters, format"
        )
    is_exact = said == expected or not form.wire
    return inner["name"], definition if is_exact else {"native": {"wire": form.wire, "block": plain}}


def _read_native(plain: dict[str, Json], wire: str) -> tuple[str, Json]:
    """Our own native form, or a block whose type is its provider's business."""
    own = plain.get("native")
    is_ours = (
        plain.keys() in ({"native"}, {"native", "instead"})
        and isinstance(own, dict)
        and own.keys() == {"wire", "block"}
    )
    if isinstance(own, dict) and is_ours and isinstance(own["block"], dict):
        if not isinstance(own["wire"], str) or not own["block"]:
            raise InvalidTool(
                'a native tool definition is {"native": {"wire": text, "block": the provider\'s own object}}'
            )
        return _label(own["block"]), {**plain, **_instead(plain)}
    if not isinstance(plain.get("type"), str):
        raise InvalidTool(f"a tool definition with the keys {sorted(plain)} is in no known form: {_FIELDS}")
    return _label(plain), {"native": {"wire": wire or _wire(plain), "block": plain}}


def _instead(plain: dict[str, Json]) -> Json:
    """The function that says the same on every other wire, checked."""
    function = plain.get("instead", {})
    return {"instead": neutral(**function)} if function else {}


_FIELDS = (
    '{"name", "description", "parameters"}, {"name", "description", "input_schema"} (Anthropic), '
    '{"type": "function", "function": {…}} (OpenAI chat), {"type": "function", "name", …} (OpenAI responses), '
    "or a provider's own tool with its type"
)


def _wire(block: dict[str, Json]) -> str:
    """Whose tool this is: OpenAI's chat endpoint knows `custom` besides functions, and nests it."""
    if _ANTHROPIC.fullmatch(block["type"]):
        return "anthropic_messages"
    return "openai_chat" if isinstance(block.get(block["type"]), dict) else "openai_responses"


def _label(block: dict[str, Json]) -> str:
    """What to call a native block: its name, wherever the provider keeps it, or its type."""
    nested = block.get(str(block.get("type")))
    places = {**block, **nested} if isinstance(nested, dict) and "name" in nested else block
    return next((str(places[key]) for key in _LABELS if places.get(key)), "native")
