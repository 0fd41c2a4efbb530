"""How a finding reaches the user: as a warning at the line that made the call, as an error before anything is sent, or by a callable.

Takes findings and the place of the caller, gives nothing back. Knows nothing of requests.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Any, Literal

from contextkit.errors import PrefixBroken, UsageError
from contextkit.lint.finding import CodePlace, Finding, RequestPlace

OnBreak = Literal["warn", "raise"] | Callable[[Finding], object]
"""What becomes of a finding."""

_PASSED = frozenset({
    "anthropic", "openai", "httpx", "httpx2", "httpcore", "httpcore2", "contextkit", "anyio", "asyncio", "concurrent", "contextlib",
    "functools", "threading", "pydantic", "langchain", "langchain_core", "langchain_anthropic", "langchain_openai", "langgraph",
    "pydantic_ai", "pydantic_graph", "agents", "litellm", "instructor",
})  # fmt: skip
"""Packages between the caller and the transport: clients, and frameworks that call them."""
_SDK_ERRORS = {"anthropic": "AnthropicError", "openai": "OpenAIError"}
"""SDK → its root error. What is not of it and leaves a transport is taken for a lost connection, wrapped and tried again
(anthropic/_base_client.py, `_attempt_request`)."""


class PrefixWarning(UserWarning):
    """A request does not begin as the one before it did, or was billed more than it should have been."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The line that made a call."""

    file: str
    """Path of its file, empty where the stack shows none."""
    line: int
    """From 1."""
    module: str
    """Its module, for warning filters."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


def caller() -> Caller:
    """The innermost frame that belongs to neither SDK, HTTP client, event loop nor this package.

    A coroutine's frames stand on the stack while it runs, so an async call shows its line too, up to the task it was started in.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _PASSED:
            return Caller(frame.f_code.co_filename, frame.f_lineno, module)
        frame = frame.f_back
    return Caller("", 0, "")


def described(finding: Finding) -> str:
    """A finding in one paragraph: code, what, where, both sides, what it costs.

    >>> place = RequestPlace("watch-1", 2, "", "system", "system[0]", 9, "at 10:00", "at 10:01", "agent.py:12")
    >>> print(described(Finding("CKS01", "the clock is in the system prompt", place, "guard", cost_tokens=4000)))
    CKS01 the clock is in the system prompt: system[0] byte 9 (system level), was 'at 10:00', now 'at 10:01'; about 4,000 cached tokens \
billed again; sent from agent.py:12
    """
    return f"{finding.code} {finding.message}: {_where(finding.place)}" + "".join(f"; {part}" for part in _rest(finding))


def _where(place: CodePlace | RequestPlace) -> str:
    if isinstance(place, CodePlace):
        return str(place)
    sides = f", was {place.was!r}, now {place.now!r}" if place.was or place.now else ""
    return f"{place.path} byte {place.offset} ({place.level} level){sides}"


def _rest(finding: Finding) -> list[str]:
    sent_from = finding.place.caller if isinstance(finding.place, RequestPlace) else ""
    said = {
        f"about {finding.cost_tokens or 0:,} cached tokens billed again": finding.cost_tokens,
        f"the provider says {finding.verdict}": finding.verdict,
        f"sent from {sent_from}": sent_from,
    }
    return [text for text, is_known in said.items() if is_known]


class Teller:
    """One way to tell; raises `UsageError` for one there is not."""

    __slots__ = ("_on_break", "_sdk")

    def __init__(self, on_break: OnBreak, sdk: str) -> None:
        """`sdk` is the package whose client is watched: what is raised passes through it unchanged."""
        if on_break not in ("warn", "raise") and not callable(on_break):
            raise UsageError(f'on_break is "warn", "raise" or a callable that takes a Finding, not {on_break!r:.60}')
        self._on_break, self._sdk = on_break, sdk

    def before(self, finding: Finding, where: Caller) -> None:
        """Tell of a request that has not left yet. Raises `PrefixBroken` where that was asked for, or where the callable raises."""
        if self._on_break == "raise":
            raise passing(PrefixBroken, self._sdk)(described(finding), finding)
        self._tell(finding, where)

    def after(self, finding: Finding, where: Caller) -> None:
        """Tell of a call that was billed: its reply is never lost for it, so "raise" warns here."""
        self._tell(finding, where)

    def _tell(self, finding: Finding, where: Caller) -> None:
        if not callable(self._on_break):
            kind = passing(PrefixWarning, self._sdk)
            warnings.warn_explicit(kind(described(finding)), kind, where.file or "<unknown>", where.line, where.module or None)
            return
        try:
            self._on_break(finding)
        except Exception as error:
            raise passing(PrefixBroken, self._sdk)(f"on_break raised {type(error).__name__} for {described(finding)}", finding) from error


@cache
def passing(kind: type[Any], sdk: str) -> type[Any]:
    """`kind` as an error of the SDK too, so that the SDK lets it through; `kind` itself for any other package."""
    if sdk not in _SDK_ERRORS:
        return kind
    root = getattr(import_module(sdk), _SDK_ERRORS[sdk])
    plain = {"__doc__": kind.__doc__, "__module__": kind.__module__, "__reduce__": lambda self: (kind, self.args, self.__dict__)}
    return type(kind.__name__, (kind, root), plain)
