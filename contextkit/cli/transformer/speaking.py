"""What the reference model says to a request: text, or a call, or JSON, every token sampled from its logits under a
mask.

Takes a request body and a run that holds its prompt, gives the parts of a reply. An untrained model says nothing
sensible; what the masks leave it to choose (which tool, which of an enum, which letters) it chooses, and what a grammar
leaves no choice in is written for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contextkit.canonical import Json, canonical, parse

if TYPE_CHECKING:
    from contextkit.transformer.engine import Choose, Engine, Run
    from contextkit.transformer.masking import Mode
    from contextkit.transformer.ops import Array

LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz ")
"""What text and strings are sampled from: what the words of a model that knows no words are made of."""
MOST_TEXT, MOST_STRING = 40, 8
"""Bytes of a text and of a string in an argument, at most."""
_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_WORDS: Mapping[str, Mode] = {"any": "required", "required": "required", "none": "none", "auto": "auto"}
"""A provider's word → the mode it means."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a request leaves open about calls."""

    mode: Mode
    """As in `transformer/masking.py`."""
    names: tuple[str, ...]
    """Tools that may be called."""


def choice(body: Mapping[str, Json]) -> Choice:
    """Tools and `tool_choice` of any endpoint.

    >>> choice({"tools": [{"name": "a"}, {"name": "b"}], "tool_choice": {"type": "tool", "name": "b"}})
    Choice(mode='specified', names=('b',))
    """
    tools, asked = tuple(_schemas(body)), body.get("tool_choice") or "auto"
    if not tools:
        return Choice("none", ())
    if isinstance(asked, str) or asked["type"] in _WORDS:
        return Choice(_WORDS[asked if isinstance(asked, str) else asked["type"]], tools)
    allowed = asked.get("allowed_tools", asked)
    if asked["type"] == "allowed_tools":
        return Choice(_WORDS[allowed["mode"]], tuple(_name(tool) for tool in allowed["tools"]))
    return Choice("specified", (_name(asked),))


def _name(tool: Mapping[str, Json]) -> str:
    """Of a tool or a choice: Chat nests it."""
    name: str = tool.get("function", tool)["name"]
    return name


def _schemas(body: Mapping[str, Json]) -> dict[str, Json]:
    """Name of each tool → the schema of its arguments."""
    tools = [tool.get("function", tool) for tool in body.get("tools") or [] if "name" in tool.get("function", tool)]
    return {tool["name"]: tool.get("parameters") or tool.get("input_schema") or {} for tool in tools}


def _asked_schema(body: Mapping[str, Json]) -> Json:
    """The schema the reply's text must have; None for none."""
    text: Json = body.get("text") or {}
    asked: Json = body.get("response_format") or text.get("format") or {}
    return {"json_schema": asked.get("json_schema", asked).get("schema") or {}, "json_object": {}}.get(
        asked.get("type", "")
    )


class Speaker:
    """Writes one reply behind a prompt, token by token."""

    def __init__(self, engine: Engine, run: Run, logits: Array, choose: Choose) -> None:
        self._engine, self._run, self._logits, self._choose = engine, run, logits, choose

    def put(self, text: str) -> None:
        """Tokens there is no choice about."""
        for token in text.encode():
            (self._logits,) = self._engine.decode([self._run], [token])

    def pick(self, allowed: Callable[[Sequence[int]], Collection[int]], most: int) -> bytes:
        """Sample under a mask until it allows nothing but the end, the end is sampled, or there are `most`."""
        from contextkit.transformer.masking import masked
        from contextkit.transformer.model import Bytes

        made: list[int] = []
        while len(made) < most:
            token = self._choose(masked(self._logits[-1], allowed(made) or {Bytes.end}))
            if token == Bytes.end:
                break
            made.append(token)
            (self._logits,) = self._engine.decode([self._run], [token])
        return bytes(made)

    def one_of(self, options: Iterable[str]) -> str:
        """One of some texts, letter by letter; the end may be sampled where one is complete."""
        from contextkit.transformer.model import Bytes

        known = [[*option.encode(), Bytes.end] for option in options]
        return self.pick(
            lambda made: {option[len(made)] for option in known if option[: len(made)] == list(made)}, 1 << 20
        ).decode()

    def words(self, most: int, *, is_begun: bool = False) -> str:
        """Some letters, until the end is sampled."""
        from contextkit.transformer.model import Bytes

        return (
            self.pick(lambda made: LETTERS | {Bytes.end} if made or is_begun else LETTERS - {32}, most)
            .decode()
            .rstrip()
        )

    def json(self, schema: Json) -> str:
        """A value of a schema: required properties in its order, the first alternative, enums and letters sampled."""
        schema = schema if isinstance(schema, dict) else {}
        alternatives = schema.get("anyOf") or schema.get("oneOf")
        if alternatives:
            return self.json(alternatives[0])
        if "enum" in schema or "const" in schema:
            return self.one_of(canonical(value).decode() for value in schema.get("enum", [schema.get("const")]))
        kind = schema.get("type", "object")
        return _KINDS.get(kind[0] if isinstance(kind, list) else kind, _object)(self, schema)

    def said(self, text: str) -> str:
        """`put`, and the text again."""
        self.put(text)
        return text


def _object(speaker: Speaker, schema: Json) -> str:
    properties = schema.get("properties") or {}
    text = speaker.said("{")
    for i, name in enumerate(schema.get("required", ())):
        text += speaker.said(("," if i else "") + canonical(name).decode() + ":") + speaker.json(
            properties.get(name, {"type": "string"})
        )
    return text + speaker.said("}")


def _string(speaker: Speaker, schema: Json) -> str:
    return speaker.said('"') + speaker.words(MOST_STRING) + speaker.said('"')


_KINDS: Mapping[str, Callable[[Speaker, Json], str]] = {
    "object": _object,
    "string": _string,
    "array": lambda speaker, schema: (
        speaker.said("[") + speaker.json(schema.get("items", {"type": "string"})) + speaker.said("]")
    ),
    "integer": lambda speaker, schema: speaker.one_of(map(str, range(10))),
    "number": lambda speaker, schema: speaker.one_of(map(str, range(10))),
    "boolean": lambda speaker, schema: speaker.one_of(("true", "false")),
    "null": lambda speaker, schema: speaker.said("null"),
}
"""Type in a schema → what writes a value of it."""


def parts(speaker: Speaker, body: Mapping[str, Json]) -> list[Json]:
    """A reply to `body`: a call where one is asked for, or where the model opens one itself; else JSON or letters."""
    asked, schema = choice(body), _asked_schema(body)
    if asked.mode in ("required", "specified"):
        return [_call(speaker, asked, body, "")]
    if schema is not None:
        return [{"type": "text", "text": speaker.json(schema)}]
    limit = min(MOST_TEXT, *(int(body[name]) for name in _LIMITS if body.get(name)), MOST_TEXT)
    opening = {ord("<")} if asked.mode == "auto" else set()
    first = speaker.pick(lambda made: LETTERS - {32} | opening, 1).decode()
    if first == "<":
        return [_call(speaker, asked, body, first)]
    return [{"type": "text", "text": first + speaker.words(limit - 1, is_begun=True)}]


def _call(speaker: Speaker, asked: Choice, body: Mapping[str, Json], begun: str) -> Json:
    """A call, of which `begun` is written: its name under the mask of the mode, its arguments by their schema."""
    from contextkit.transformer.masking import calls, prefill
    from contextkit.transformer.model import Bytes

    mode: Mode = "required" if asked.mode == "auto" else asked.mode
    made, mask = begun + speaker.said(prefill(asked.names, mode)[len(begun) :]), calls(asked.names, mode, Bytes())
    while made.count('"') < 4:  # <tool_call>{"name": "…": the fourth quote ends the name
        made += speaker.pick(lambda new, made=made: mask([*made.encode(), *new]), 1).decode()  # type: ignore[misc]
    name = made.split('"')[3]
    speaker.put(', "arguments": ')
    arguments = speaker.json(_schemas(body)[name])
    speaker.put("}</tool_call>")
    return {"type": "call", "name": name, "arguments": parse(arguments.encode())}
