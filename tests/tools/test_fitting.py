"""Arguments against schemas written by hand: what pydantic's own schemas accept is never refused, plain misfits are
told where."""

from __future__ import annotations

import math
from typing import Any, Literal, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from contextkit import Tool
from contextkit.errors import InvalidCall
from contextkit.tools.signature import misfit


class Arguments(TypedDict):
    """What a tool takes."""

    n: int
    words: list[str]
    size: NotRequired[Literal["small", "large", 3]]
    ratio: NotRequired[float | None]
    inner: NotRequired[dict[str, bool]]


ADAPTER = TypeAdapter(Arguments)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from(["small", "large", "x"])
)
VALUES = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.sampled_from("ab"), LEAVES, max_size=2)


def accepts(value: Any) -> bool:
    try:
        ADAPTER.validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


@given(st.dictionaries(st.sampled_from(["n", "words", "size", "ratio", "inner", "more"]), VALUES))
def test_what_fits_is_never_refused_and_plain_misfits_are(value: dict[str, Any]) -> None:
    schema = ADAPTER.json_schema()
    why = misfit(schema, value)
    if accepts(value):
        assert why is None
    is_number = isinstance(value.get("n"), int | float) and not isinstance(value["n"], bool)
    is_plain = (
        is_number
        and math.isfinite(value["n"])
        and value["n"] == int(value["n"])
        and isinstance(value.get("words"), list)
    )
    if not is_plain or not all(isinstance(word, str) for word in value["words"]):
        assert why is not None


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ({"type": "object", "required": ["a"]}, {}, "a: is required and was not given"),
        ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": 5}, "a: must be text or null, not a number"),
        (
            {"properties": {"a": {"items": {"type": "string"}}}},
            {"a": ["x", False]},
            "a[1]: must be text, not true or false",
        ),
        ({"properties": {"a": {"enum": [1, "x"]}}}, {"a": True}, "a: must be one of 1, 'x'"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "b: is not a parameter of this tool"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": math.inf}, "a: must be an integer, not a number"),
    ],
)
def test_where_a_misfit_stands(schema: Any, value: Any, why: str) -> None:
    assert misfit(schema, value) == why
    with pytest.raises(InvalidCall, match="do not fit tool 'a'"):
        Tool.raw({"name": "a", "parameters": {"type": "object", **schema}}, run=lambda arguments: "ran").run(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (None, {"a": 1}),
        (True, {"a": 1}),
        ({"$ref": "#/$defs/a", "type": "string"}, {}),
        ({"properties": {"a": {"type": "string", "nullable": True}}}, {"a": None}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 10**400}),
        ({"properties": {"a": {"type": "something of mine"}}}, {"a": 5}),
        ({"properties": {"a": {"anyOf": [{"type": "string"}]}}}, {"a": 5}),
        ({"required": True, "properties": {"a": {"required": True}}}, {}),
        ({"properties": {}, "patternProperties": {"^x": {}}, "additionalProperties": False}, {"x1": 1}),
        ({"properties": {"a": {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}}}, {"a": ["x", 1]}),
    ],
)
def test_what_it_does_not_know_it_lets_pass(schema: Any, value: Any) -> None:
    assert misfit(schema, value) is None
