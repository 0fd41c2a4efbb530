"""What the source detector says about a case, it says about rewrites of it that keep its meaning.

That they keep it is tested by running them: each function and method of each case is called with objects that write
down what is done with them, and so is each rewrite of it.
"""

from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import pytest

from tests.lint.variants import CASES, REWRITES, Judged, Variant, measure, variant

LEAST_FOUND = 0.95
MOST_FLAGGED = 0.05
FILES = sorted(CASES.glob("*.py"))


def _rewritten(file: Path, rewrite: str) -> Variant:
    return variant(file.read_text(encoding="utf-8"), rewrite, file.stem)


def test_a_case_is_judged_right_as_it_is(tmp_path: Path) -> None:
    row = measure(tmp_path, "unchanged")
    assert [one for one in [*row.hazardous, *row.clean] if not one.is_right] == []
    assert len(row.hazardous) > 200 and len(row.clean) > 250


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_rewrite_changes_most_units(rewrite: str) -> None:
    units = [unit for file in FILES for unit in _rewritten(file, rewrite).units]
    least = {"partial": 0.6, "async": 0.8}.get(rewrite, 0.9)
    assert sum(unit.is_rewritten for unit in units) >= least * len(units)


def test_rewrites_are_judged_as_their_cases(tmp_path: Path) -> None:
    hazardous: list[tuple[str, Judged]] = []
    clean: list[tuple[str, Judged]] = []
    for rewrite in REWRITES:
        if rewrite != "unchanged":
            folder = tmp_path / rewrite
            folder.mkdir()
            row = measure(folder, rewrite)
            hazardous.extend((rewrite, one) for one in row.hazardous)
            clean.extend((rewrite, one) for one in row.clean)
    missed, flagged = ([one for one in judged if not one[1].is_right] for judged in (hazardous, clean))
    assert len(missed) <= (1 - LEAST_FOUND) * len(hazardous), missed
    assert len(flagged) <= MOST_FLAGGED * len(clean), flagged


# Running them


class Enough(BaseException):
    """A function was watched long enough."""


class Record:
    """What was done, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stored: dict[str, Any] = {}
        self.n_calls = 0
        self.begin()

    def begin(self) -> None:
        """A call begins, and may go on for as long as the one before it."""
        self.n_steps_left, self.n_lines_left = 500, 50

    def step(self) -> None:
        self.n_steps_left -= 1
        if self.n_steps_left < 0:
            raise Enough

    def add(self, line: str) -> None:
        self.lines.append(line.replace("Async", ""))
        self.n_lines_left -= 1
        if self.n_lines_left < 0:
            raise Enough


class Anything:
    """Stands for any object: can be called, read, iterated, added, awaited; writes down what has an effect."""

    def __init__(self, path: str, record: Record) -> None:
        self.__dict__.update(_path=path, _record=record)

    def _made(self, path: str) -> Anything:
        self._record.step()
        return Anything(path[-400:], self._record)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        return self._record.stored.get(path) or self._made(path)

    def __setattr__(self, name: str, value: object) -> None:
        self._record.add(f"{self._path}.{name} = {told(value)}")
        self._record.stored[f"{self._path}.{name}"] = value

    def __call__(self, *args: object, **named: object) -> Anything:
        given = [*map(told, args), *(f"{name}={told(value)}" for name, value in named.items())]
        self._record.n_calls += 1
        self._record.add(f"{self._path}({', '.join(given)})")
        return self._made(f"result{self._record.n_calls}")

    def __getitem__(self, key: object) -> Anything:
        return self._made(f"{self._path}[{told(key)}]")

    def __setitem__(self, key: object, value: object) -> None:
        self._record.add(f"{self._path}[{told(key)}] = {told(value)}")

    def __delitem__(self, key: object) -> None:
        self._record.add(f"del {self._path}[{told(key)}]")

    def __iter__(self) -> Iterator[Anything]:
        self._record.add(f"iter {self._path}")
        return iter([self._made(f"{self._path}<{at}>") for at in range(2)])

    def __contains__(self, key: object) -> bool:
        self._record.add(f"{told(key)} in {self._path}")
        return True

    def __instancecheck__(self, one: object) -> bool:
        self._record.add(f"{told(one)} is {self._path}")
        return len(self._record.lines) % 2 == 0

    def __len__(self) -> int:
        self._record.step()
        return 2

    def __bool__(self) -> bool:
        self._record.step()
        return True

    def __str__(self) -> str:
        return f"<{self._path}>"

    __repr__ = __str__

    def __format__(self, form: str) -> str:
        return f"<{self._path}:{form}>"

    def __hash__(self) -> int:
        return hash(self._path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anything) and other._path == self._path

    def __index__(self) -> int:
        return 3

    def __neg__(self) -> int:
        return -3

    def __deepcopy__(self, memo: object) -> Anything:
        return self._made(f"copy of {self._path}")

    def __await__(self) -> Iterator[None]:
        yield from ()
        return self

    def __enter__(self) -> Self:
        self._record.add(f"enter {self._path}")
        return self

    def __exit__(self, *_: object) -> None:
        self._record.add(f"exit {self._path}")

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    async def __aiter__(self) -> Any:
        for one in self:
            yield one


def _operation(name: str) -> Callable[[Anything, object], Anything]:
    return lambda self, other: self._made(f"({self._path} {name} {told(other)})")


def _comparison(name: str) -> Callable[[Anything, object], bool]:
    def compared(self: Anything, other: object) -> bool:
        self._record.add(f"{self._path} {name} {told(other)}")
        return self._path < other._path if isinstance(other, Anything) else True

    return compared


for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or"):
    setattr(Anything, f"__{name}__", _operation(name))
    setattr(Anything, f"__r{name}__", _operation(f"r{name}"))
for name in ("lt", "le", "gt", "ge"):
    setattr(Anything, f"__{name}__", _comparison(name))

REAL = {
    "functools",
    "dataclasses",
    "collections",
    "copy",
    "itertools",
    "__future__",
    "contextlib",
    "operator",
    "json",
    "re",
}
"""Modules that are what they are; objects of all others stand for anything."""


def told(value: object) -> str:
    """A value, whatever its classes and functions are called."""
    match value:
        case list() | tuple():
            return f"[{', '.join(map(told, value))}]"
        case dict():
            return f"{{{', '.join(f'{told(key)}: {told(one)}' for key, one in value.items())}}}"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(told, value)))}}}"
        case slice():
            return f"{told(value.start)}:{told(value.stop)}"
        case Anything() | str() | int() | float() | None:
            return repr(value)
        case types.CoroutineType():
            return told(_finished(value))
        case types.GeneratorType():
            return told(list(value))
        case _ if callable(value):
            return getattr(value, "__name__", "callable")
    return type(value).__name__.removeprefix("_").removesuffix("Base")


def _finished(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("nothing here waits")


@lru_cache(maxsize=16)
def _compiled(text: str) -> types.CodeType:
    return compile(text, "case", "exec")


class Known(dict[str, Any]):
    """The builtins; a name that a case does not define stands for anything."""

    def __init__(self, names: dict[str, Any], record: Record) -> None:
        super().__init__(names)
        self.record = record

    def __missing__(self, name: str) -> Anything:
        return Anything(name, self.record)


def _loaded(made: Variant, record: Record) -> dict[str, Any]:
    """The names of a module, whose imports stand for anything."""

    def imported(name: str, scope: object = None, _locals: object = None, names: Any = (), level: int = 0) -> Any:
        if level:
            module = types.SimpleNamespace()
            exec(made.files[f"{name}.py"], module.__dict__)
            return module
        if name in REAL:
            return builtins.__import__(name, fromlist=names or ())
        return Anything(name.partition(".")[0] if not names else name, record)

    known = {**vars(builtins), "__import__": imported}
    known.update((name, Anything(name, record)) for name in ("print", "open", "input"))
    scope: dict[str, Any] = {"__name__": __name__, "__builtins__": Known(known, record)}
    exec(_compiled(next(iter(made.files.values()))), scope)
    return scope


MESSAGES = [
    {"role": "system", "content": "Be brief.", "id": 0},
    {"role": "user", "content": [{"type": "text", "text": "Hello."}], "id": 1},
    {"role": "assistant", "content": "Hi.", "id": 2, "tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]},
]


def _argument(name: str, record: Record, *, is_real: bool) -> Any:
    if is_real and name in {"messages", "history", "tools", "names", "items", "rows", "results"}:
        return [
            {key: [*map(dict, one)] if isinstance(one, list) else one for key, one in row.items()} for row in MESSAGES
        ]
    return Anything(name, record)


def _called(function: Callable[..., Any], record: Record, *, is_real: bool) -> Any:
    """What a function gives and does when it is called; None where it raises."""
    record.begin()
    parameters = inspect.signature(function).parameters.values()
    args = [
        _argument(one.name, record, is_real=is_real)
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    named = {
        one.name: _argument(one.name, record, is_real=is_real) for one in parameters if one.kind is one.KEYWORD_ONLY
    }
    result = None
    try:
        result = function(*args, **named)
        if inspect.iscoroutine(result):
            result = _finished(result)
        record.add(f"gives {told(result)}")
    except Enough:
        record.lines.append("enough")
    except Exception as error:  # noqa: BLE001  # whatever the case raises, its rewrite raises
        record.lines.append(f"raises {type(error).__name__}")
    record.lines.append(f"arguments {told([*args, named])}")
    return result


def _first_parameter(function: Any) -> str:
    return next(iter(inspect.signature(function).parameters), "") if isinstance(function, types.FunctionType) else ""


def _found(scope: dict[str, Any], name: str, self_named: set[str]) -> Any:
    """A function of a case, also where it has become a method; those of `self_named` had a `self` before."""
    if name in scope:
        return scope[name]
    holder = scope["_" + "".join(word.title() for word in name.split("_"))]
    function = getattr(holder, name)
    return getattr(holder(), name) if _first_parameter(function) == "self" and name not in self_named else function


def ran(made: Variant, names: list[str], self_named: set[str], *, is_real: bool) -> dict[str, list[str]]:
    """Name of each function and class of a case → what happens when it is called, and all its methods in turn."""
    lines = {}
    for name in names:
        record = Record()
        with suppress(Enough):
            _watch(_found(_loaded(made, record), name, self_named), record, is_real=is_real)
        lines[name] = record.lines
    return lines


def _watch(thing: Any, record: Record, *, is_real: bool) -> None:
    own = _called(thing, record, is_real=is_real)
    if isinstance(thing, type):
        for one in dir(own):
            method = None if one.startswith(("__", "_made_")) else getattr(own, one)
            if callable(method) and not isinstance(method, Anything):
                record.lines.append(one)
                _called(method, record, is_real=is_real)
        record.lines.append(told(getattr(own, "__dict__", {})))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_rewrite_does_what_its_case_does(file: Path) -> None:
    case = _rewritten(file, "unchanged")
    names = [unit.name for unit in case.units if unit.name.isidentifier()]
    functions = _loaded(case, Record())
    self_named = {name for name in names if _first_parameter(functions[name]) == "self"}
    expected = [ran(case, names, self_named, is_real=is_real) for is_real in (False, True)]
    for rewrite in REWRITES:
        made = _rewritten(file, rewrite)
        for is_real in (False, True):
            found = ran(made, names, self_named, is_real=is_real)
            for name in names:
                assert found[name] == expected[is_real][name], f"{rewrite}: {name}"
