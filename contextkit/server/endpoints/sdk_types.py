"""The shape of a request body, checked against the types that an installed SDK declares.

Takes a TypedDict or a pydantic model of an SDK, gives `Mismatch`es: the places where a JSON value does not fit. Knows no
endpoint. The schema is built when it is first used. A check takes about 2 µs for a message: nothing is remembered.

The SDK's types are written for authors, an API takes more: a field that is null counts as absent, an array is a list (an
`Iterable` accepts text), a text of a closed list of words may be one of a later list. `Rules` names the exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from contextkit.canonical import Json

_LABEL = "\0"
"""Begins the parts of an error's location that are no field: the branch of a union."""
_MEMBER = "\0#"
"""The same, of a branch that only trying can find."""
_JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
_SCHEMA_TYPES = {
    "typed-dict": "object",
    "dict": "object",
    "list": "array",
    "generator": "array",
    "str": "string",
    "bool": "boolean",
    "int": "number",
    "float": "number",
    "literal": "string",
}
"""Type of a core schema → JSON type."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where a value does not fit its type."""

    path: str
    """`messages[0].content`; empty for the value itself."""
    kind: Literal["missing", "type", "value", "unknown"]
    """A required field is absent or null; another JSON type; a discriminator of none of the types; a field that a closed
    type does not have."""
    expected: str
    """What fits there: `a valid string`, `'user', 'assistant'`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Where an API is more lenient than its SDK's types."""

    optional: frozenset[str] = frozenset()
    """Required fields that the API does without."""
    closed: frozenset[str] = frozenset()
    """Fields whose words are all there are; any other field takes words of later versions too."""
    open_unions: frozenset[str] = frozenset()
    """Fields that take objects of types which the SDK does not declare yet."""
    shallow: frozenset[str] = frozenset()
    """Top-level fields of which the JSON type alone is checked."""


@dataclass
class SdkType(Collection[str]):
    """A TypedDict of an SDK: the names of its fields, and the check of a value."""

    load: Callable[[], Any]
    """Imports it."""
    rules: Rules = Rules()
    """Where the API is more lenient."""
    beside: frozenset[str] = frozenset()
    """Fields of the endpoint that the type does not declare: they are listed, and not checked."""

    @property
    def _schema(self) -> _Schema:
        return _schema_of(self.load, self.rules)

    def __contains__(self, name: object) -> bool:
        return name in self._schema.fields or name in self.beside

    def __iter__(self) -> Iterator[str]:
        return iter((*self._schema.fields, *self.beside))

    def __len__(self) -> int:
        return len(self._schema.fields) + len(self.beside)

    def mismatches(self, value: Json) -> Iterator[Mismatch]:
        """The places of `value` that do not fit, in the order of the type's fields."""
        from pydantic_core import ValidationError

        try:
            self._schema.validator.validate_python(value, strict=True)
        except ValidationError as error:
            for row in _closest(error.errors(include_url=False), 0):
                yield _mismatch(row)


@cache
def _schema_of(load: Callable[[], Any], rules: Rules) -> _Schema:
    from pydantic import TypeAdapter

    return _Schema(TypeAdapter(load()).core_schema, rules)


class _Schema:
    """A core schema of pydantic, adapted: unions are told apart by JSON type and by discriminator."""

    def __init__(self, schema: Any, rules: Rules) -> None:
        from pydantic_core import SchemaValidator

        self._rules = rules
        self._definitions: dict[str, Any] = {}
        if schema["type"] == "definitions":
            self._definitions = {one["ref"]: one for one in schema["definitions"]}
            schema = schema["schema"]
        self._root = self._resolved(schema)
        self.fields: Mapping[str, Any] = self._root["fields"]
        adapted = self._adapted(self._root, "")
        definitions = [{**self._adapted(one, ""), "ref": ref} for ref, one in self._definitions.items()]
        self.validator = SchemaValidator({"type": "definitions", "schema": adapted, "definitions": definitions})

    def _resolved(self, schema: Any) -> Any:
        while schema["type"] == "definition-ref":
            schema = self._definitions[schema["schema_ref"]]
        return schema

    def _branches(self, schema: Any) -> Iterator[Any]:
        """The types of a union, of unions inside it too; null is none."""
        inner = self._resolved(schema)
        if inner["type"] == "union":
            for choice in inner["choices"]:
                yield from self._branches(choice[0] if isinstance(choice, tuple) else choice)
        elif inner["type"] == "nullable":
            yield from self._branches(inner["schema"])
        elif inner["type"] == "json-or-python":
            yield from self._branches(inner["json_schema"])
        else:
            yield schema

    def _adapted(self, schema: Any, name: str) -> Any:
        """The schema of the field `name`, as the API takes it."""
        kind = schema["type"]
        if kind == "typed-dict":
            return {"type": "typed-dict", "fields": self._fields(schema), "total": False}
        if kind in ("list", "generator"):
            return {"type": "list", "items_schema": self._adapted(schema["items_schema"], name)}
        if kind == "dict":
            return {"type": "dict", "values_schema": self._adapted(schema.get("values_schema", _ANY), name)}
        if kind == "nullable":
            return {"type": "nullable", "schema": self._adapted(schema["schema"], name)}
        if kind == "json-or-python":
            return self._adapted(schema["json_schema"], name)
        if kind == "union":
            return self._union(schema, name)
        if kind == "literal" and all(isinstance(word, bool) for word in schema["expected"]):
            return {"type": "bool"}
        if kind == "literal" and all(isinstance(word, str) for word in schema["expected"]):
            return schema if name in self._rules.closed else {"type": "str"}
        return schema

    def _fields(self, schema: Any) -> dict[str, Any]:
        declared = schema["fields"]
        required = {name for name, one in declared.items() if one.get("required")}
        needed = required - self._rules.optional
        if not needed - {"type"}:
            needed = required  # what says nothing but its type would pass for any object
        fields = {}
        for name, one in declared.items():
            is_shallow = schema is self._root and name in self._rules.shallow
            adapted = self._shallow(one["schema"]) if is_shallow else self._adapted(one["schema"], name)
            if name not in needed and adapted["type"] != "nullable":
                adapted = {"type": "nullable", "schema": adapted}
            fields[name] = {"type": "typed-dict-field", "schema": adapted, "required": name in needed}
        return fields

    def _shallow(self, schema: Any) -> Any:
        branches = map(self._resolved, self._branches(schema))
        json_types = dict.fromkeys(_SCHEMA_TYPES[branch["type"]] for branch in branches)
        choices = {_LABEL + json_type: _PLAIN[json_type] for json_type in json_types}
        return {"type": "tagged-union", "discriminator": _branch_of, "choices": choices}

    def _union(self, union: Any, name: str) -> Any:
        """A union whose branch is found by JSON type, then by the objects' discriminator."""
        branches = list(self._branches(union))
        objects = [one for one in map(self._resolved, branches) if one["type"] == "typed-dict"]
        if objects:  # a model of the SDK beside TypedDicts is for authors who pass a response on: JSON has none
            branches = [branch for branch in branches if self._resolved(branch)["type"] != "model"]
        names = [name for name in ("type", "role") if all(name in one["fields"] for one in objects)]
        discriminator = names[0] if names and len(objects) > 1 else ""
        groups: dict[str, list[Any]] = {}
        for branch in branches:
            resolved = self._resolved(branch)
            json_type = _SCHEMA_TYPES.get(resolved["type"])
            if json_type is None:
                return _ANY
            words = [json_type]
            if json_type == "object" and discriminator:
                words = self._words(resolved, discriminator)
            for word in words:
                groups.setdefault(word, []).append(self._adapted(branch, name))
        is_open = name in self._rules.open_unions
        choices = {
            _LABEL + word: schemas[0]
            if len(schemas) == 1
            else {"type": "union", "choices": [(one, f"{_MEMBER}{index}") for index, one in enumerate(schemas)]}
            for word, schemas in groups.items()
        }
        if is_open:
            choices[_LABEL + "other"] = _ANY
        known = frozenset(groups)

        def branch_of(value: Json) -> str:
            word = _JSON_TYPES.get(type(value), "null")
            if word == "object" and discriminator:
                tag = value.get(discriminator)
                word = f"{discriminator}={tag}"
                if is_open and isinstance(tag, str) and word not in known:
                    word = "other"
            return _LABEL + word

        return {"type": "tagged-union", "discriminator": branch_of, "choices": choices}

    def _words(self, schema: Any, discriminator: str) -> list[str]:
        declared = schema["fields"][discriminator]
        literal = next(iter(self._branches(declared["schema"])))
        words = [f"{discriminator}={word}" for word in literal.get("expected", ())]
        return words if declared.get("required") else [*words, f"{discriminator}=None"]


_ANY = {"type": "any"}
_PLAIN: dict[str, Any] = {
    "object": {"type": "dict"},
    "array": {"type": "list"},
    "string": {"type": "str"},
    "boolean": {"type": "bool"},
    "number": {"type": "float"},
}
"""JSON type → schema of any such value."""


def _branch_of(value: Json) -> str:
    return _LABEL + _JSON_TYPES.get(type(value), "null")


def _closest(rows: list[Any], start: int) -> list[Any]:
    """The errors of a value, and of the member of each union that it comes nearest to."""
    direct: list[Any] = []
    unions: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for row in rows:
        place = next((i for i, part in enumerate(row["loc"][start:], start) if str(part).startswith(_MEMBER)), None)
        if place is None:
            direct.append(row)
        else:
            members = unions.setdefault(row["loc"][:place], {})
            members.setdefault(row["loc"][place], []).append((place + 1, row))
    for members in unions.values():
        errors = [_closest([row for _, row in placed], placed[0][0]) for placed in members.values()]
        nearest = min(errors, key=len)
        direct.extend(nearest)
    return direct


def _mismatch(row: Mapping[str, Any]) -> Mismatch:
    """An error of pydantic's as a mismatch."""
    path = ""
    for part in row["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith(_LABEL):
            path += f".{part}" if path else part
    kind, context = row["type"], row.get("ctx", {})
    if kind == "missing" or row.get("input", "") is None:
        return Mismatch(path, "missing", "a value")
    if kind == "extra_forbidden":
        return Mismatch(path, "unknown", "no such field")
    if kind == "union_tag_invalid":
        words = [
            word.strip("'").removeprefix("\\x00").removeprefix(_LABEL) for word in context["expected_tags"].split(", ")
        ]
        named = [word.partition("=")[::2] for word in words if "=" in word]
        if named and isinstance(row["input"], dict):
            texts = [f"'{word}'" for _, word in named if word != "None"]
            return Mismatch(f"{path}.{named[0][0]}" if path else named[0][0], "value", ", ".join(texts))
        plain = dict.fromkeys("object" if "=" in word else word for word in words)
        return Mismatch(path, "type", " or ".join(f"a valid {word}" for word in plain))
    return Mismatch(path, "type", row["msg"].removeprefix("Input should be "))
