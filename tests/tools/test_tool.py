"""Running a tool with what a model wrote."""

from __future__ import annotations

import asyncio
import enum
import functools
import threading
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter, field_validator

from contextkit.errors import InvalidCall, UsageError
from contextkit.tools.tool import tool


class Unit(enum.Enum):
    KM = "km"
    MILE = "mile"


@dataclass(frozen=True)
class Place:
    name: str
    height: int | None = None


class Route(BaseModel):
    stops: list[Place]
    unit: Unit = Unit.KM
    weights: dict[str, float] = {}
    span: tuple[int, bool] = (0, False)


@tool
def plan(
    route: Route, mode: Literal["fast", "short"] = "fast", note: str | None = None
) -> tuple[Route, str, str | None]:
    """Plan a route."""
    return route, mode, note


_TEXT = st.text(st.characters(codec="utf-8"), max_size=10)
_ROUTES = st.builds(
    Route,
    stops=st.lists(st.builds(Place, _TEXT, st.none() | st.integers(-(10**9), 10**9)), max_size=3),
    unit=st.sampled_from(Unit),
    weights=st.dictionaries(_TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    span=st.tuples(st.integers(-5, 5), st.booleans()),
)


@given(_ROUTES, st.sampled_from(["fast", "short"]), st.none() | _TEXT)
def test_what_the_schema_allows_arrives_as_the_declared_types(route: Route, mode: str, note: str | None) -> None:
    arguments = {"route": TypeAdapter(Route).dump_python(route, mode="json"), "mode": mode, "note": note}
    Draft202012Validator(plan.parameters).validate(arguments)
    assert plan.run(arguments) == (route, mode, note)


@given(_ROUTES, st.sampled_from(["route", "stops", "extra"]))
def test_what_the_schema_refuses_is_refused(route: Route, fault: str) -> None:
    dumped = TypeAdapter(Route).dump_python(route, mode="json")
    faults = {
        "route": {"mode": "fast"},
        "stops": {"route": {key: value for key, value in dumped.items() if key != "stops"}},
        "extra": {"route": dumped, "extra": 1},
    }
    assert not Draft202012Validator(plan.parameters).is_valid(faults[fault])
    with pytest.raises(InvalidCall):
        plan.run(faults[fault])


def test_defaults_are_the_functions_own() -> None:
    marker: list[int] = []

    @tool
    def collect(
        x: int = 1,
        into: list[int] = marker,
        more: Annotated[list[int], Field(default_factory=list)] = Field(),  # noqa: B008
    ) -> list[int]:
        """Collect."""
        into.append(x)
        return more

    assert collect.run({}) == []
    assert collect.run({"x": "7"}) == []
    assert marker == [1, 7]


def test_pydantic_defaults_without_a_signature_default_are_passed() -> None:
    @tool
    def collect(
        a: Annotated[int, Field(default=7)],
        b: Annotated[list[int], Field(default_factory=list)],
        c: int = Field(5, ge=1),
    ) -> object:
        """Collect."""
        return a, b, c

    assert "required" not in collect.parameters
    assert collect.run({}) == (7, [], 5)


def test_keyword_only_and_odd_names() -> None:
    @tool
    def odd(schema: str, _x: int, *, copy: bool, model_dump: float = 1.0) -> object:
        """Odd."""
        return schema, _x, copy, model_dump

    assert odd.run({"schema": "s", "_x": 1, "copy": True}) == ("s", 1, True, 1.0)


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n % 2:
            raise ValueError(f"{n} is odd; give an even number")
        return n


@tool
def check(n: Even, word: Literal["a", "b"], items: list[int] = []) -> str:  # noqa: B006
    """Check."""
    return "ok"


def test_mistakes_are_told_in_words_for_the_model() -> None:
    with pytest.raises(InvalidCall) as caught:
        check.run({"n": {"n": 3}, "items": [1, "two"], "color": "x"})
    assert str(caught.value) == (
        "the arguments do not fit tool 'check'; correct them and call it again:\n"
        "- n.n: Value error, 3 is odd; give an even number, not 3\n"
        "- word: is required and was not given\n"
        '- items[1]: Input should be a valid integer, unable to parse string as an integer, not "two"\n'
        "- color: is not a parameter of this tool"
    )


@given(st.integers(81, 400), st.sampled_from(["word", "items", "extra", "n"]))
def test_no_more_than_80_characters_of_a_value_are_repeated(length: int, field: str) -> None:
    secret = "§" * length
    arguments = {
        "word": {"n": {"n": 2}, "word": secret},
        "items": {"n": {"n": 2}, "word": "a", "items": [secret]},
        "extra": {"n": {"n": 2}, "word": "a", secret: 1},
        "n": {"n": {"n": secret}, "word": "a"},
    }
    with pytest.raises(InvalidCall) as caught:
        check.run(arguments[field])
    assert str(caught.value).count("§") <= 80


def test_message_of_a_validator_does_not_repeat_a_long_value() -> None:
    class Word(BaseModel):
        word: str

        @field_validator("word")
        @classmethod
        def _refuse(cls, word: str) -> str:
            raise ValueError(f"{word} is not a word")

    def spell(word):  # type: ignore[no-untyped-def]
        """Spell."""

    spell.__annotations__ = {"word": Word}
    with pytest.raises(InvalidCall) as caught:
        tool(spell).run({"word": {"word": "§" * 1000}})
    assert "is not a word" in str(caught.value)
    assert str(caught.value).count("§" * 80) == 0


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (
            "\ud800",
            '- word: Input should be a valid string, unable to parse raw data as a unicode string, not "\\ud800"',
        ),
        (float("nan"), "- word: Input should be 'a' or 'b', not NaN"),
        ({"é": [1, None]}, "- word: Input should be 'a' or 'b', not {\"é\": [1, null]}"),
    ],
)
def test_any_value_can_be_told_of(word: object, text: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        check.run({"n": {"n": 2}, "word": word})
    assert str(caught.value).splitlines()[1:] == [text]
    assert str(caught.value).encode()


def test_many_mistakes_are_counted() -> None:
    with pytest.raises(InvalidCall) as caught:
        check.run({"n": {"n": 2}, "word": "a", "items": ["x"] * 30})
    assert str(caught.value).splitlines()[-1] == "- and 10 more"


def test_arguments_must_be_an_object() -> None:
    with pytest.raises(InvalidCall, match="the arguments of tool 'check' must be a JSON object, not list"):
        check.run([1])  # type: ignore[arg-type]


def test_decorated_function_is_still_callable() -> None:
    assert check(Even(n=2), word="a") == "ok"


@tool
async def fetch(url: str) -> str:
    """Fetch a page."""
    await asyncio.sleep(0)
    return f"page of {url}"


def test_async_tool() -> None:
    assert fetch.is_async
    assert asyncio.run(fetch.arun({"url": "a"})) == "page of a"  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"tool 'fetch' is async; await tool\.arun\(arguments\)") as caught:
        fetch.run({"url": "a"})
    assert not isinstance(caught.value, InvalidCall)


def test_sync_tool_does_not_hold_up_the_event_loop() -> None:
    @tool
    def where() -> int:
        """Say where."""
        return threading.get_ident()

    assert asyncio.run(where.arun({})) != threading.get_ident()  # type: ignore[arg-type]
    assert where.run({}) == threading.get_ident()


def test_sync_wrapper_of_async_function() -> None:
    @functools.wraps(fetch.function)  # type: ignore[arg-type]
    def logged(*args: object, **kwargs: object) -> object:
        return fetch(*args, **kwargs)

    wrapped = tool(logged)
    assert list(wrapped.parameters["properties"]) == ["url"]
    assert asyncio.run(wrapped.arun({"url": "b"})) == "page of b"  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="returned an awaitable"):
        wrapped.run({"url": "b"})


class Counter:
    def __init__(self) -> None:
        self.n = 0

    def add(self, by: int = 1) -> int:
        """Add to the counter."""
        self.n += by
        return self.n

    async def later(self, by: int) -> int:
        """Add later."""
        return self.add(by)

    @classmethod
    def make(cls, n: int) -> int:
        """Make."""
        return n

    @staticmethod
    def double(n: int) -> int:
        """Double."""
        return 2 * n


def test_methods() -> None:
    counter = Counter()
    add = tool(counter.add)
    assert list(add.parameters["properties"]) == ["by"]
    assert (add.run({"by": 2}), add.run({}), counter.n) == (2, 3, 3)
    assert asyncio.run(tool(counter.later).arun({"by": 4})) == 7  # type: ignore[arg-type]
    assert tool(Counter.make).run({"n": 1}) == 1
    assert tool(Counter.double).run({"n": 2}) == 4


def test_a_tool_is_sealed() -> None:
    plan.definition["parameters"]["properties"].clear()
    plan.parameters.clear()
    assert list(plan.parameters["properties"]) == ["route", "mode", "note"]
