"""Tools: what the model reads of one, what runs when it is called, a call of it, and all tools of a conversation.

A `Tool` is made of a typed, documented function, a definition somebody wrote by hand, or an MCP listing; its definition
is frozen bytes. A `Call` is in the hands of the loop that answers it. A `Toolbox` holds the tools in one order that
never changes: they stand first in every prompt, so another order, or one tool more, and nothing after them is read from
the cache. For lists whose order drifts (MCP servers after a reconnect) there is `Toolbox.sorted`.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Reversible
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from typing import Any, TypeVar, overload

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidCall, InvalidTool, NotSerialisable, UsageError
from contextkit.tools.definition import INVALID_ARGUMENTS, PORTABLE, check_name, neutral, read_definition, sealed
from contextkit.tools.mcp import Listed, caller, read_listing, read_pages
from contextkit.tools.render import Tried
from contextkit.tools.signature import Format, custom, misfit, read_docstring, read_signature, text_parameter

Function = Callable[..., object]
"""A function or bound method, sync or async."""
_WRAPPED, _SAMPLE = re.compile(r"\s"), 200
"""Blanks, and how much of a text shows whether it is arguments after all: a function's that are no JSON arrive as text
too."""
Arguments = Mapping[str, Json] | str
"""What a model wrote: named arguments, or the text of a tool that is called with text."""
INTERRUPTED = (
    "interrupted: the program ended while this call ran, so its effect may or may not have happened; "
    "check before calling it again"
)
"""Answers a call that was begun, perhaps by a process that died, and never answered."""
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
    sort_keys: bool = field(default=False, repr=False)
    """Whether the keys of results that are data are sorted."""

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
        """Return whether the definition is one provider's own words."""
        return "native" in self.definition

    def run(self, arguments: Arguments) -> object:
        """What the function returns for the arguments a model wrote.

        For the text, where it is a tool that is called with text.

        Raises `InvalidCall`, in words for the model, when they do not fit; `UsageError` when the tool is async or has
        nothing to run; and whatever the function raises.
        """
        return self._ready(arguments, is_awaited=False)()

    async def arun(self, arguments: Arguments) -> object:
        """The same from async code; a sync function runs in a thread, so that it does not hold up the event loop."""
        return await self._ready(arguments, is_awaited=True)()

    async def _awaited(self, ready: Callable[[], object]) -> object:
        outcome = ready() if self.is_async else await asyncio.to_thread(_run_in_thread, ready)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _ready(self, arguments: Arguments, *, is_awaited: bool) -> Callable[[], Any]:
        """The call, its arguments validated; nothing has run yet."""
        if self.is_async and not is_awaited:
            raise UsageError(f"tool {self.name!r} is async; await tool.arun(arguments)")
        ready = self._bound(arguments)
        return partial(self._awaited if is_awaited else self._value, ready)

    def _value(self, ready: Callable[[], object]) -> object:
        outcome = ready()
        if inspect.isawaitable(outcome):
            getattr(outcome, "close", lambda: None)()
            raise UsageError(f"tool {self.name!r} returned an awaitable; await tool.arun(arguments)")
        return outcome

    def _bound(self, arguments: Arguments) -> Callable[[], object]:
        if self._bind is None:
            raise UsageError(
                f"tool {self.name!r} has nothing to run; give it run=…, or run it yourself and record the result; where a "
                "conversation is opened again, give it the tools and the memory it was begun with: tools=[…], memory=…"
            )
        if (
            isinstance(arguments, Mapping)
            and arguments.keys() == {INVALID_ARGUMENTS}
            and not self._declares(INVALID_ARGUMENTS)
        ):
            raise InvalidCall(_not_an_object(self.name, str(arguments[INVALID_ARGUMENTS])))
        if isinstance(arguments, str) and self.text_parameter:
            if _WRAPPED.sub("", arguments[:_SAMPLE]).startswith(f'{{"{self.text_parameter}":'):
                raise InvalidCall(
                    f"tool {self.name!r} was called with torn JSON, or with JSON around its text; call it again"
                )
            return self._bind({self.text_parameter: arguments})
        if not isinstance(arguments, Mapping):
            text = arguments if isinstance(arguments, str) else canonical(arguments).decode()
            raise InvalidCall(_not_an_object(self.name, text))
        return self._bind(arguments)

    def permitted(self, refusal: Callable[[], str | None]) -> Tool:
        """The tool, which asks before each run; `refusal` gives why it may not run, in words for the model, or None."""
        bind = self._bind
        if bind is None:
            return self

        def ask(arguments: Mapping[str, Json]) -> Callable[[], object]:
            if why := refusal():
                raise InvalidCall(why)
            return bind(arguments)

        return replace(self, _bind=ask)

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
    *,
    name: str | None = None,
    description: str | None = None,
    format: Format | None = None,
    sort_keys: bool = False,
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    format: Format | None = None,
    sort_keys: bool = False,
) -> Tool | Callable[[Function], Tool]:
    """Make a tool of a typed, documented function: `@tool`, or `@tool(name=…, description=…)`.

    The schema comes from the signature, the description from the docstring above its first section, a parameter's
    description from `Annotated[…, "text"]`, `Field(description=…)` or the docstring. With `format="text"`, or a
    `Grammar`, the model calls it with text instead of JSON where its provider has custom tools. `sort_keys` sorts the
    keys of results that are data. Raises `InvalidTool` naming the parameter at fault.

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
        return lambda function: _of_function(function, name, description, format, sort_keys)
    return _of_function(function, name, description, format, sort_keys)


def _of_function(
    function: Function, name: str | None, description: str | None, text_format: Format | None, sort_keys: bool
) -> Tool:
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
    text_argument = text_parameter(definition)
    return Tool(own, sealed(own, definition), function, _is_async(function), bind, text_argument, sort_keys)


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


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One unanswered tool call."""

    id: str
    """The provider's id."""
    name: str
    """The tool asked for."""
    arguments: Arguments
    """What the model wrote, in its order: named arguments, or a text."""
    was_started: bool
    """Whether `begin` was called before, perhaps by a process that died: the side effect may have happened."""
    is_cut: bool
    """Whether the reply was cut off at this call: its arguments may be a part of what was meant, so it is not run."""
    tool: Tool | None = field(repr=False)
    """The tool, None where the model named one that does not exist."""
    _begin: Callable[[str], object] = field(repr=False)
    _answer: Callable[[str, object], object] = field(repr=False)
    _refusal: Callable[[str], str | None] = field(repr=False)

    @property
    def refusal(self) -> str | None:
        """Why it may not be made in the present phase, in words for the model; None where it may."""
        return self._refusal(self.name)

    def run(self, tries: int = 1) -> object:
        """Validate the arguments, note durably that the call begins, and run the tool.

        Return its value, or the exception it raised, which `context.result` renders as an error. A call that was
        started before is not run: its answer is an error that says so. `call.tool.run(call.arguments)` runs a tool that
        may run twice.

        A tool that fails is run again, up to `tries` times in all; what failed before stands in the result, in front of
        what came last. Raises `OSError` or `StorageError` where the start cannot be noted; nothing has run then.
        """
        failures: list[Exception] = []
        for _ in range(_checked(tries)):
            ready = self._begun(is_awaited=False)
            if isinstance(ready, Exception):
                return _tried(failures, ready)
            try:
                return _tried(failures, ready())
            except Exception as error:
                failures.append(_answerable(error))
                if isinstance(error, InvalidCall):
                    break
        return _tried(failures[:-1], failures[-1])

    async def arun(self, tries: int = 1) -> object:
        """`run` for async tools; sync ones run in a thread."""
        failures: list[Exception] = []
        for _ in range(_checked(tries)):
            ready = await asyncio.to_thread(self._begun, is_awaited=True)
            if isinstance(ready, Exception):
                return _tried(failures, ready)
            try:
                return _tried(failures, await ready())
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                failures.append(
                    RuntimeError("the tool was cancelled before it had a result")
                )  # by itself: nobody stopped this loop
            except Exception as error:
                failures.append(_answerable(error))
                if isinstance(error, InvalidCall):
                    break
        return _tried(failures[:-1], failures[-1])

    def begin(self) -> None:
        """Note durably, once, that the side effect is about to happen: after a crash `was_started` says so.

        `run` does it; call it where you run the tool yourself.
        """
        self._begin(self.id)

    def deny(self, reason: str) -> None:
        """Answer with a refusal the model can read."""
        self._answer(self.id, InvalidCall(f"denied: {reason}"))

    def _begun(self, *, is_awaited: bool) -> Callable[[], Any] | Exception:
        """The call, ready to be made and noted as begun; where it is not to be made, what answers it."""
        try:
            if self.was_started:
                raise InvalidCall(INTERRUPTED)
            if self.is_cut:
                raise InvalidCall(
                    "the reply reached its token limit in this call, so it was not run; make it again, with shorter "
                    "arguments"
                )
            if why := self._refusal(self.name):
                raise InvalidCall(why)
            if self.tool is None:
                raise InvalidCall(f"there is no tool named {self.name!r}")
            ready = self.tool._ready(self.arguments, is_awaited=is_awaited)
        except Exception as error:
            return _answerable(error)
        try:
            self._begin(self.id)
        except InvalidCall as error:  # it was answered meanwhile
            return error
        return ready


async def run_all(calls: Iterable[Call], answer: Callable[[Call, object], T], limit: int, tries: int = 1) -> list[T]:
    """Run calls, at most `limit` at a time and each up to `tries` times, and `answer` each as it ends, in a thread.

    In call order.

    Raises the program's own mistake (a tool with nothing to run) when all others are answered, `UsageError` for a limit
    below 1.
    """
    if type(limit) is not int or limit < 1:
        raise UsageError(f"limit={limit!r}: how many calls run at a time, 1 or more")
    gate = asyncio.Semaphore(limit)

    async def settle(call: Call) -> T:
        async with gate:
            value = await call.arun(tries)
        return await asyncio.to_thread(answer, call, value)

    settled = await asyncio.gather(*map(settle, calls), return_exceptions=True)
    for outcome in settled:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in settled if not isinstance(outcome, BaseException)]


def _checked(tries: int) -> int:
    if type(tries) is not int or tries < 1:
        raise UsageError(f"tries={tries!r}: how often a call is made at most, 1 or more")
    return tries


def _tried(failures: list[Exception], value: object) -> object:
    return Tried(tuple(failures), value) if failures else value


def _answerable(error: Exception) -> Exception:
    """Every failure of a tool is an answer the model can act on; a mistake of the program that runs it is not."""
    if isinstance(error, UsageError) and not isinstance(error, InvalidCall):
        raise error
    return error


Toolable = Tool | Function | Mapping[str, Json]
"""A tool, a function it is made of, or a definition in any form `Tool.raw` reads."""


@dataclass(frozen=True, slots=True, init=False)
class Toolbox:
    """Tools, sealed and ordered."""

    tools: tuple[Tool, ...]
    """In the order the model sees them."""
    _by_name: dict[str, Tool] = field(repr=False, compare=False)
    """The same, to be found."""

    def __init__(self, tools: Iterable[Toolable] = ()) -> None:
        """Seal `tools` in the order given.

        Raises `InvalidTool` for what has no order, for two of one name, and for what no tool is.
        """
        if isinstance(tools, AbstractSet) and not isinstance(
            tools, Reversible
        ):  # keys of a dict, and ordered sets, can be reversed
            raise InvalidTool(
                "tools are a list: a set has another order in each process, or Toolbox.sorted(…) gives it one"
            )
        made = _as_tools(tools)
        by_name = {one.name: one for one in made}
        if len(by_name) < len(made):
            names = [one.name for one in made]
            twice = next(name for name in by_name if names.count(name) > 1)
            raise InvalidTool(f"two tools are named {twice!r}; rename one: tool(name=…), or Tool.from_mcp(…, prefix=…)")
        object.__setattr__(self, "tools", made)
        object.__setattr__(self, "_by_name", by_name)

    @classmethod
    def sorted(cls, tools: Iterable[Toolable]) -> Toolbox:
        """The tools in the order of their names, whatever order they come in.

        >>> Toolbox.sorted([{"name": "b"}, {"name": "a"}]).names
        ('a', 'b')
        """
        in_order: list[Tool] = sorted(_as_tools(tools), key=lambda one: one.name)
        return cls(in_order)

    @classmethod
    async def from_mcp(cls, session: Any, *, prefix: str = "") -> Toolbox:
        """All tools of an MCP server, every page of them, in the order of their names: the same toolbox after every
        reconnect.

        `session` is an open `mcp.ClientSession` or `mcp.Client`; the tools call it. Raises `InvalidTool` for two tools
        of one name.
        """
        return cls.sorted(Tool.from_mcp(await read_pages(session), call=caller(session), prefix=prefix))

    def declared_as(self, definitions: Iterable[Json]) -> Toolbox:
        """The tools; one whose definition equals one of `definitions` as a JSON value has its bytes.

        The order of keys is no other definition: a server may write it differently after each connection.

        >>> one = Toolbox([{"name": "a", "parameters": {"type": "object", "title": "A"}}])
        >>> other = Toolbox([{"name": "a", "parameters": {"title": "A", "type": "object"}}])
        >>> other == one, other.declared_as(one.definitions()) == one
        (False, True)
        """
        declared = {canonical(definition, sort=True): canonical(definition) for definition in definitions}
        return Toolbox(
            replace(one, body=declared.get(canonical(one.definition, sort=True), one.body)) for one in self.tools
        )

    def definitions(self) -> list[Json]:
        """The neutral definitions, in order; fresh copies."""
        return [one.definition for one in self.tools]

    @property
    def digest(self) -> bytes:
        """16 bytes that change when a definition or the order does."""
        return hashlib.blake2b(canonical(self.definitions()), digest_size=16).digest()

    @property
    def names(self) -> tuple[str, ...]:
        """In order."""
        return tuple(self._by_name)

    @property
    def families(self) -> dict[str, tuple[str, ...]]:
        """Names by what stands before their first underscore; a name without one has no family.

        >>> Toolbox([{"name": "browser_open"}, {"name": "search"}, {"name": "browser_click"}]).families
        {'browser': ('browser_open', 'browser_click')}
        """
        found: dict[str, tuple[str, ...]] = {}
        for name in self.names:
            prefix, underscore, _ = name.partition("_")
            if prefix and underscore:
                found[prefix] = (*found.get(prefix, ()), name)
        return found

    def __getitem__(self, name: str) -> Tool:
        """The tool of that name. Raises `KeyError`, as a mapping does."""
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        """Return whether a tool, or a tool of that name, is here."""
        return name in self._by_name or name in self.tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


def _as_tools(tools: Iterable[Toolable]) -> tuple[Tool, ...]:
    if not isinstance(tools, Iterable) or isinstance(tools, str | bytes | Mapping):
        raise InvalidTool(f"tools are a list of functions, Tools or definition dicts, not {type(tools).__name__}")
    return tuple(map(_as_tool, tools))


@singledispatch
def _as_tool(thing: object) -> Tool:
    if isinstance(thing, str):
        raise InvalidTool(
            f"{thing!r} is the name of a tool; give the tool itself: that of a conversation is context.toolbox[{thing!r}]"
        )
    if not callable(thing):
        raise InvalidTool(f"{type(thing).__name__} is no tool; give a function, a Tool, or a definition dict")
    return tool(thing)


@_as_tool.register(Tool)
def _(thing: Tool) -> Tool:
    return thing


@_as_tool.register(Mapping)
def _(thing: Mapping[str, Json]) -> Tool:
    return Tool.raw(thing)
