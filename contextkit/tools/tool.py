"""One tool: what the model reads of it, and what runs when the model calls it.

Takes a typed, documented function, a definition somebody wrote by hand, or an MCP listing; gives a `Tool` whose
definition is frozen bytes. Knows nothing of conversations: a call's place in the log, its result and its errors are the
caller's.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import overload

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidCall, InvalidTool, NotSerialisable, UsageError
from contextkit.tools.definition import PORTABLE, check_name, neutral, read_definition, sealed
from contextkit.tools.mcp import Listed, read_listing
from contextkit.tools.signature.docstring import read_docstring
from contextkit.tools.signature.fitting import misfit
from contextkit.tools.signature.grammar import Format, custom, text_parameter
from contextkit.tools.signature.schema import read_signature

Function = Callable[..., object]
"""A function or bound method, sync or async."""
_WRAPPED, _SEEN = re.compile(r"\s"), 200
"""Blanks, and how much of a text shows whether it is arguments after all: a function's that are no JSON arrive as text
too."""
Arguments = Mapping[str, Json] | str
"""What a model wrote: named arguments, or the text of a tool that is called with text."""
INVALID_ARGUMENTS = "INVALID_JSON"
"""Key under which arguments stand as text that were no JSON object, on wires that take back objects only.

Source: platform.claude.com, "Fine-grained tool streaming", Handling invalid JSON in tool responses."""
Bind = Callable[[Mapping[str, Json]], Callable[[], object]]
"""Arguments as the model wrote them → the call, ready to be made."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, sealed: its definition cannot move while a conversation relies on it."""

    name: str
    """What the model calls it."""
    body: bytes = field(repr=False)
    """Canonical JSON of the definition."""
    function: Function | None = field(default=None, repr=False)
    """What runs; None where somebody else runs it."""
    is_async: bool = False
    """Whether it must be awaited."""
    _bind: Bind | None = field(default=None, repr=False, compare=False)
    """Validates arguments and makes the call ready."""
    text_parameter: str = field(default="", repr=False)
    """Parameter that takes the text of a tool called with text; "" for one called with named arguments."""

    @property
    def definition(self) -> Json:
        """`{"name", "description", "parameters"}`, or `{"native": {"wire", "block"}}`.

        A fresh copy, in the order it was written.
        """
        return parse(self.body)

    @property
    def description(self) -> str:
        """What the model reads first; empty where the definition is one provider's own words."""
        return str(self.definition.get("description", ""))

    @property
    def parameters(self) -> Json:
        """JSON Schema of the arguments; None where the definition is one provider's own words."""
        return self.definition.get("parameters")

    @property
    def is_native(self) -> bool:
        """Whether the definition is one provider's own words."""
        return "native" in self.definition

    def run(self, arguments: Arguments) -> object:
        """What the function returns for the arguments a model wrote.

        For the text, where it is a tool that is called with text.

        Raises `InvalidCall`, in words for the model, when they do not fit; `UsageError` when the tool is async or has
        nothing to run; and whatever the function raises.
        """
        if self.is_async:
            raise UsageError(f"tool {self.name!r} is async; await tool.arun(arguments)")
        outcome = self._ready(arguments)()
        if inspect.isawaitable(outcome):
            getattr(outcome, "close", lambda: None)()
            raise UsageError(f"tool {self.name!r} returned an awaitable; await tool.arun(arguments)")
        return outcome

    async def arun(self, arguments: Arguments) -> object:
        """The same from async code; a sync function runs in a thread, so that it does not hold up the event loop."""
        ready = self._ready(arguments)
        outcome = ready() if self.is_async else await asyncio.to_thread(_run_in_thread, ready)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _ready(self, arguments: Arguments) -> Callable[[], object]:
        if self._bind is None:
            raise UsageError(
                f"tool {self.name!r} has nothing to run; give it run=…, or run it yourself and record the result"
            )
        if (
            isinstance(arguments, Mapping)
            and arguments.keys() == {INVALID_ARGUMENTS}
            and not self._declares(INVALID_ARGUMENTS)
        ):
            raise InvalidCall(_not_an_object(self.name, str(arguments[INVALID_ARGUMENTS])))
        if isinstance(arguments, str) and self.text_parameter:
            if _WRAPPED.sub("", arguments[:_SEEN]).startswith(f'{{"{self.text_parameter}":'):
                raise InvalidCall(
                    f"tool {self.name!r} was called with torn JSON, or with JSON around its text; call it again"
                )
            return self._bind({self.text_parameter: arguments})
        if not isinstance(arguments, Mapping):
            text = arguments if isinstance(arguments, str) else canonical(arguments).decode()
            raise InvalidCall(_not_an_object(self.name, text))
        return self._bind(arguments)

    def _declares(self, parameter: str) -> bool:
        return parameter in ((self.parameters or {}).get("properties") or {})

    def __call__(self, *args: object, **kwargs: object) -> object:
        """The decorated function itself, for your own code."""
        if self.function is None:
            raise UsageError(f"tool {self.name!r} has nothing to run; give it run=…")
        return self.function(*args, **kwargs)

    @classmethod
    def raw(cls, definition: Mapping[str, Json], *, run: Function | None = None, wire: str = "") -> Tool:
        """A tool from a dict in the form of Anthropic, OpenAI chat, OpenAI responses, or our own.

        `run` takes the arguments as one dict.

        Any other `type` is a provider's own tool, kept verbatim; `wire` says whose, where its type does not.
        `cache_control` is dropped: the layout places the marks. Raises `InvalidTool`.

        >>> Tool.raw({"name": "ping", "description": "Ping.", "input_schema": {"type": "object"}}, run=lambda arguments: "pong").run({})
        'pong'
        """
        if run is not None and not callable(run):
            raise InvalidTool(f"run is a function that takes the arguments as one dict, not {type(run).__name__}")
        name, neutral_form = read_definition(definition, wire)
        bind = None if run is None else _whole(name, neutral_form, run)
        return cls(name, sealed(name, neutral_form), run, _is_async(run), bind, text_parameter(neutral_form))

    @classmethod
    def from_mcp(
        cls, listing: object, *, call: Callable[[str, dict[str, Json]], object], prefix: str = ""
    ) -> list[Tool]:
        """The tools of one page of an MCP `tools/list` answer.

        `call(name, arguments)` is `session.call_tool`, its result yours to render.

        Names get `prefix`, and `_` for what no provider takes; `call` gets the server's own. Raises `InvalidTool`.
        """
        if not callable(call):
            raise InvalidTool(
                f"call is a function that takes name and arguments (session.call_tool), not {type(call).__name__}"
            )
        return [cls._listed(one, partial(call, one.remote), _is_async(call)) for one in read_listing(listing, prefix)]

    @classmethod
    def _listed(cls, one: Listed, run: Function, is_async: bool) -> Tool:
        return cls(one.name, one.body, run, is_async, _whole(one.name, parse(one.body), run))


@overload
def tool(function: Function, /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, format: Format | None = None
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    format: Format | None = None,
) -> Tool | Callable[[Function], Tool]:
    """Make a tool of a typed, documented function: `@tool`, or `@tool(name=…, description=…)`.

    The schema comes from the signature, the description from the docstring above its first section, a parameter's
    description from `Annotated[…, "text"]`, `Field(description=…)` or the docstring. With `format="text"`, or a
    `Grammar`, the model calls it with text instead of JSON where its provider has custom tools. Raises `InvalidTool`
    naming the parameter at fault.

    >>> @tool
    ... def search(query: str, limit: int = 10) -> str:
    ...     '''Search the web.'''
    ...     return f"{limit} pages about {query}"
    >>> search.run({"query": "caches", "limit": "3"})
    '3 pages about caches'
    >>> search.parameters["properties"]["limit"]
    {'default': 10, 'type': 'integer'}
    """
    if function is None:
        return lambda function: _of_function(function, name, description, format)
    return _of_function(function, name, description, format)


def _of_function(function: Function, name: str | None, description: str | None, text_format: Format | None) -> Tool:
    if not inspect.isroutine(function):
        raise InvalidTool(
            f"a tool is made of a function or a bound method, not {type(function).__name__}; wrap it in a def"
        )
    own = function.__name__ if name is None else name
    check_name(own, PORTABLE)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTool(f"tool {own!r}: a generator has no single result; return a value")
    written = read_docstring(inspect.getdoc(function) or "")
    parameters = read_signature(function, own, written.parameters)
    text = written.description if description is None else description
    if not text.strip():
        raise InvalidTool(
            f"tool {own!r}: it has no docstring; write one, it is what the model reads to decide when to call it"
        )

    def bind(arguments: Mapping[str, Json]) -> Callable[[], object]:
        return partial(function, **parameters.bind(own, arguments))

    definition = neutral(own, text, parameters.schema)
    if text_format is not None:
        definition = custom(definition, text_format)
    return Tool(own, sealed(own, definition), function, _is_async(function), bind, text_parameter(definition))


def _not_an_object(name: str, written: str) -> str:
    """What is wrong with arguments that are no object, in words for the model."""
    try:
        value = parse(written)
    except NotSerialisable as error:
        return f"the arguments of tool {name!r} are not valid JSON ({error}); write them again, as one JSON object"
    wrong = "str, and not nested too deep" if isinstance(value, dict) else type(value).__name__
    return f"the arguments of tool {name!r} must be a JSON object, not {wrong}; write them again"


def _run_in_thread(ready: Callable[[], object]) -> object:
    """Make a call in a thread.

    A future cannot hold `StopIteration` (as a bare `next(...)` raises it): it would be waited for for ever.
    """
    try:
        return ready()
    except StopIteration as error:
        raise RuntimeError("the tool raised StopIteration") from error


def _whole(name: str, definition: Json, function: Function) -> Bind:
    """A call that takes the arguments as they came, as one dict.

    Those that do not fit the schema are refused in words for the model.
    """

    def bind(arguments: Mapping[str, Json]) -> Callable[[], object]:
        given = dict(arguments)
        if why := misfit(definition.get("parameters"), given):
            raise InvalidCall(f"the arguments do not fit tool {name!r}; correct them and call it again:\n- {why}")
        return partial(function, given)

    return bind


def _is_async(function: Function | None) -> bool:
    called = getattr(type(function), "__call__", None)  # noqa: B004 - an object whose class is awaited when called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
