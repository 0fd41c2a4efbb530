"""Why a call did not end well, as ledgers name it where the provider did not: `unreachable`, `cut` or `aborted`.

Takes an exception that a transport raised; gives one word, never a text, which may quote the prompt. docs/proxy.md lists
them.
"""

from __future__ import annotations

CUT, ABORTED, UNREACHABLE = "cut", "aborted", "unreachable"
"""The provider broke off in the middle; the caller left; the provider did not answer at all."""
_CALLER_LEFT = (
    "CancelledError",
    "KeyboardInterrupt",
    "Cancelled",
    "GeneratorExit",
    "SystemExit",
    "ReadTimeout",
    "WriteTimeout",
)
"""Errors by which the caller, or its timeout, ends a call that the provider still worked on (httpx2/_exceptions.py)."""


def unanswered(error: BaseException) -> str:
    """The word for an exception in place of a response."""
    return _aborted_or(error, UNREACHABLE)


def broken_off(error: BaseException) -> str:
    """The word for an exception in the middle of a response."""
    return _aborted_or(error, CUT)


def _aborted_or(error: BaseException, word: str) -> str:
    names = {kind.__name__ for kind in type(error).__mro__}
    return ABORTED if names.intersection(_CALLER_LEFT) else word
