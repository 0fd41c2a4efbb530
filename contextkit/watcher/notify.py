"""Notifies the user of findings: a warning at the line that made the call, an error before anything is sent, or a
callable.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import iscoroutinefunction
from types import FrameType
from typing import Any, Literal

from contextkit.errors import PrefixBroken, UsageError
from contextkit.ledger.transport import sdk_error_class
from contextkit.lint.finding import CodePlace, Finding, RequestPlace
from contextkit.terminal import sanitize

OnBreak = Literal["warn", "raise"] | Callable[[Finding], object]
"""How findings are reported."""

_OWN = frozenset({"contextkit", "asyncio", "concurrent", "contextlib", "functools", "threading"})
_PASSED = frozenset(
    {
        "anthropic",
        "openai",
        "httpx",
        "httpx2",
        "httpcore",
        "httpcore2",
        "anyio",
        "pydantic",
        "langchain",
        "langchain_core",
        "langchain_anthropic",
        "langchain_openai",
        "langgraph",
        "pydantic_ai",
        "pydantic_graph",
        "agents",
        "litellm",
        "instructor",
    }
)
"""Installed packages between the caller and the transport: clients, and frameworks that call them. A package of the
user's own with such a name is not skipped."""
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_LOOPS = frozenset({"asyncio.events", "asyncio.base_events", "asyncio.runners"})
"""Modules that run tasks: frames above them started the loop, not the call."""
_POOL = "concurrent.futures.thread"
"""Module that runs work in threads; its frame has the work item as `self`."""


class PrefixWarning(UserWarning):
    """A request broke the prefix of its conversation, or was billed more than expected."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The line that made a call."""

    file: str
    """Path of its file; empty where the stack shows none."""
    line: int
    """From 1."""
    module: str
    """Module, for warning filters."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


def caller() -> Caller:
    """Find the innermost frame that belongs to neither SDK, HTTP client, event loop nor this package.

    A coroutine's frames stand on the stack while it runs, so an async call shows its line too. A call that is a task of
    its own (`gather(client.messages.create(…))`), or that a coroutine gave to a thread
    (`to_thread(client.messages.create, …)`), shows the line that waits for it; nothing where that cannot be told: what
    other code gives to a pool or a `Thread` leaves no trace of who did.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module in _LOOPS:
            return next(map(_caller_at, _waiting_for(asyncio.current_task())), NOBODY)
        if not _is_passed(module, frame):
            return _caller_at(frame)
        if module == _POOL and "self" in frame.f_locals:
            time.sleep(0)  # who gave it the work may not have come to wait for it yet
            return next(map(_caller_at, _waiting_for(_awaited(frame.f_locals["self"]))), NOBODY)
        frame = frame.f_back
    return NOBODY


NOBODY = Caller("", 0, "")
"""The caller where the stack does not show one."""


def _caller_at(frame: FrameType) -> Caller:
    return Caller(frame.f_code.co_filename, frame.f_lineno, str(frame.f_globals.get("__name__", "")))


def _is_passed(module: str, frame: FrameType) -> bool:
    top = module.partition(".")[0]
    return top in _OWN or (top in _PASSED and _INSTALLED.search(frame.f_code.co_filename) is not None)


def _waiting_for(future: asyncio.Future[Any] | None) -> Iterator[FrameType]:
    """Return the frames of the tasks that wait for a task or future, directly or in a `gather`; the innermost of each first."""
    for other in asyncio.all_tasks(future.get_loop()) if future else ():
        waits_for: Any = getattr(other, "_fut_waiter", None)
        if waits_for is not None and (waits_for is future or future in getattr(waits_for, "_children", ())):
            own = [frame for frame in _frames(other) if not _is_passed(str(frame.f_globals.get("__name__", "")), frame)]
            yield from reversed(own) if own else _waiting_for(other)


def _awaited(work: object) -> asyncio.Future[Any] | None:
    """Future that a coroutine awaits after giving work to a pool: asyncio links it to the pool's future by a callback."""
    for callback in getattr(getattr(work, "future", None), "_done_callbacks", ()):
        names = getattr(getattr(callback, "__code__", None), "co_freevars", ())
        if "destination" in names:
            tied = callback.__closure__[names.index("destination")].cell_contents
            return tied if asyncio.isfuture(tied) else None
    return None


def _frames(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """Return the frames of a task's coroutines, the outermost first."""
    inner: Any = task.get_coro()
    while (frame := getattr(inner, "cr_frame", None)) is not None:
        yield frame
        inner = inner.cr_await


def described(finding: Finding) -> str:
    """Format a finding in one paragraph: code, message, place, both sides, cost. A provider's verdict is one short line.

    >>> place = RequestPlace("watch-1", 2, "", "system", "system[0]", 9, "at 10:00", "at 10:01", "agent.py:12")
    >>> print(described(Finding("CKS01", "the clock is in the system prompt", place, "guard", cost_tokens=4000)))
    CKS01 the clock is in the system prompt: system[0] byte 9 (system level), was 'at 10:00', now 'at 10:01'; about 4,000 tokens \
billed again instead of read; sent from agent.py:12
    >>> print(described(Finding("CKS01", "confirmed by the provider", place, "provider", verdict="system_changed")))
    CKS01 confirmed by the provider: system_changed; sent from agent.py:12
    """
    return "; ".join([_description(finding), *_sent_from(finding)])


def _description(finding: Finding) -> str:
    """Format a finding without the caller's line."""
    if finding.detector == "provider" and finding.verdict:
        return f"{finding.code} {finding.message}: {finding.verdict}"
    return "; ".join([f"{finding.code} {finding.message}: {_where(finding.place)}", *_rest(finding)])


def _where(place: CodePlace | RequestPlace) -> str:
    if isinstance(place, CodePlace):
        return str(place)
    sides = f", was {place.was!r}, now {place.now!r}" if place.was or place.now else ""
    return f"{place.path} byte {place.offset} ({place.level} level){sides}"


def _rest(finding: Finding) -> list[str]:
    notes = {
        f"about {finding.cost_tokens or 0:,} tokens billed again instead of read": finding.cost_tokens,
        f"the provider says {finding.verdict}": finding.verdict,
    }
    return [text for text, is_stated in notes.items() if is_stated]


def _sent_from(finding: Finding) -> list[str]:
    caller = finding.place.caller if isinstance(finding.place, RequestPlace) else ""
    return [f"sent from {caller}"] if caller else []


class Notifier:
    """Reports findings as `on_break` says."""

    __slots__ = ("_on_break", "_sdk")

    def __init__(self, on_break: OnBreak, sdk: str) -> None:
        """`sdk` is the package of the watched client, which lets the raised errors pass unchanged.

        Raises `UsageError` for an unknown or async `on_break`.
        """
        if on_break not in ("warn", "raise") and not callable(on_break):
            raise UsageError(f'on_break is "warn", "raise" or a callable that takes a Finding, not {on_break!r:.60}')
        if iscoroutinefunction(on_break) or iscoroutinefunction(type(on_break).__call__):
            raise UsageError(
                "on_break cannot be async, nobody would await it: pass a plain def or a method, such as queue.put_nowait"
            )
        self._on_break, self._sdk = on_break, sdk

    def before(self, finding: Finding, where: Caller) -> None:
        """Report a finding on a request that is not sent yet.

        Raises `PrefixBroken` where `on_break` is "raise", or where the callable raises.
        """
        if self._on_break == "raise":
            raise sdk_error_class(PrefixBroken, self._sdk)(described(finding), finding)
        self._notify(finding, where)

    def after(self, finding: Finding, where: Caller) -> None:
        """Report a finding on a billed call. Never raises, as that would lose the reply: "raise" only warns, and a callable
        that raises, or a filter that turns warnings into errors, is logged.
        """
        try:
            self._notify(finding, where)
        except (PrefixBroken, PrefixWarning) as error:
            why = error if error.__cause__ is not None else described(finding)
            logging.getLogger("contextkit.watch").error("after a reply, which is kept: %s", sanitize(str(why)))  # noqa: TRY400 - the caller's error has its own trace

    def _notify(self, finding: Finding, where: Caller) -> None:
        if not callable(self._on_break):
            kind = sdk_error_class(PrefixWarning, self._sdk)
            warnings.warn_explicit(
                kind(sanitize(_description(finding))), kind, where.file or "<unknown>", where.line, where.module or None
            )
            return
        try:
            self._on_break(finding)
        except Exception as error:
            raise sdk_error_class(PrefixBroken, self._sdk)(
                f"on_break raised {type(error).__name__} for {described(finding)}", finding
            ) from error
