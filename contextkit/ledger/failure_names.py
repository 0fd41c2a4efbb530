"""Names of failures in ledgers where the provider gave none: `unreachable`, `cut` or `aborted` (docs/guides/proxy.md).

An exception is reduced to one name, because its text may quote the prompt.
"""

from __future__ import annotations

CUT, ABORTED, UNREACHABLE = "cut", "aborted", "unreachable"
"""The provider ended the response early; the caller ended the call; the provider did not answer."""
REFUSED = "refused"
"""The provider answered with an error whose name was anonymized."""
_CALLER_LEFT = (
    "CancelledError",
    "KeyboardInterrupt",
    "Cancelled",
    "GeneratorExit",
    "SystemExit",
    "ReadTimeout",
    "WriteTimeout",
)
"""Errors with which the caller, or its timeout, ends a call under way (httpx2/_exceptions.py)."""


def unanswered(error: BaseException) -> str:
    """Name the failure of a call that has no response."""
    return _aborted_or(error, UNREACHABLE)


def broken_off(error: BaseException) -> str:
    """Name the failure of a call within its response."""
    return _aborted_or(error, CUT)


def _aborted_or(error: BaseException, name: str) -> str:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return ABORTED if kinds.intersection(_CALLER_LEFT) else name
