"""A call the model made, in the hands of the loop that answers it.

Takes the call and what to do with it as functions, so that it knows no log and no provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from contextkit.canonical import Json
from contextkit.errors import InvalidCall, UsageError
from contextkit.tools.render import Tried
from contextkit.tools.tool import Arguments, Tool

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
    _append: Callable[[Literal["begun"], Json], object] = field(repr=False)
    _answer: Callable[[str, object], object] = field(repr=False)
    _refusal: Callable[[str], str | None] = field(repr=False)

    @property
    def refusal(self) -> str | None:
        """Why it may not be made in the present phase, in words for the model; None where it may."""
        return self._refusal(self.name)

    def run(self, tries: int = 1) -> object:
        """Validate the arguments and run the tool.

        Its value, or the exception it raised, which `context.result` renders as an error.

        A tool that fails is run again, up to `tries` times in all; what failed before stands in the result, in front of
        what came last.
        """
        failures: list[Exception] = []
        for _ in range(_checked(tries)):
            try:
                return _tried(failures, self._known().run(self.arguments))
            except Exception as error:
                failures.append(_answerable(error))
                if isinstance(error, InvalidCall):
                    break
        return _tried(failures[:-1], failures[-1])

    async def arun(self, tries: int = 1) -> object:
        """`run` for async tools; sync ones run in a thread."""
        failures: list[Exception] = []
        for _ in range(_checked(tries)):
            try:
                return _tried(failures, await self._known().arun(self.arguments))
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
        """Note durably that the side effect is about to happen: after a crash `was_started` says so."""
        self._append("begun", {"call_id": self.id})

    def deny(self, reason: str) -> None:
        """Answer with a refusal the model can read."""
        self._answer(self.id, InvalidCall(f"denied: {reason}"))

    def _known(self) -> Tool:
        if self.is_cut:
            raise InvalidCall(
                "the reply reached its token limit in this call, so it was not run; make it again, with shorter arguments"
            )
        if why := self.refusal:
            raise InvalidCall(why)
        if self.tool is None:
            raise InvalidCall(f"there is no tool named {self.name!r}")
        return self.tool


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
