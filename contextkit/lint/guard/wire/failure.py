"""Why a call did not end well, in the words of every ledger: the provider's type of error, `unreachable`, `cut` or
`aborted`.

Takes what a response said, or what a transport raised; gives one word, never a text, which may quote the prompt.
docs/proxy.md lists them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from contextkit.canonical import Json

CUT, ABORTED, UNREACHABLE = "cut", "aborted", "unreachable"
"""The provider broke off in the middle; the caller left; the provider did not answer at all."""
_NAME = re.compile(r"[\w./-]{1,64}")
"""What a type of error looks like: a text in its place may quote the prompt."""
_LEFT = (
    "CancelledError",
    "KeyboardInterrupt",
    "Cancelled",
    "GeneratorExit",
    "SystemExit",
    "ReadTimeout",
    "WriteTimeout",
)
"""Errors by which the caller, or its patience, ends a call that the provider still worked on (httpx2/_exceptions.py).
"""


def type_of(said: Json) -> str:
    """The provider's type of error in a response or an event, empty where it names none. A code says more than a type.

    >>> type_of({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    'overloaded_error'
    >>> type_of({"error": {"type": "tokens", "code": "rate_limit_exceeded"}})
    'rate_limit_exceeded'
    """
    told = said.get("error") if isinstance(said, Mapping) else None
    if isinstance(said, Mapping) and not told and said.get("type") == "error":
        told = {"code": said.get("code")}  # an event of the Responses API says it at its top
    named = [told.get(name) for name in ("code", "type", "status")] if isinstance(told, Mapping) else []
    return next((name for name in named if isinstance(name, str) and _NAME.fullmatch(name)), "")


def unanswered(error: BaseException) -> str:
    """The word for what a transport raised in place of a response."""
    return _left_or(error, UNREACHABLE)


def broken_off(error: BaseException) -> str:
    """The word for what was raised in the middle of a response."""
    return _left_or(error, CUT)


def _left_or(error: BaseException, word: str) -> str:
    names = {kind.__name__ for kind in type(error).__mro__}
    return ABORTED if names.intersection(_LEFT) else word
