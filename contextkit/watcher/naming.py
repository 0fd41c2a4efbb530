"""Explicit names of conversations, where their prompts do not distinguish them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from contextkit.errors import UsageError

_NAME = ContextVar("contextkit_conversation", default="")


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Assign every request made inside the block to the conversation `name`, whatever its prompt.

    Applies to the thread or task that enters it, to tasks started inside, and to `asyncio.to_thread`; a thread of a
    pool must enter it itself. The innermost name applies. Raises `UsageError` for an empty name.

    >>> with conversation("planner"):
    ...     current()
    'planner'
    """
    if not isinstance(name, str) or not name.strip():
        raise UsageError("a conversation is named by a string that is not empty")
    token = _NAME.set(name)
    try:
        yield
    finally:
        _NAME.reset(token)


def current() -> str:
    """Return the name that applies here; empty where none does."""
    return _NAME.get()
