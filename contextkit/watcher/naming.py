"""The name a caller gives a conversation, where what it says does not tell it from another.

Takes a name, keeps it for the calls made while it holds; knows nothing of requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from contextkit.errors import UsageError

_NAME = ContextVar("contextkit_conversation", default="")


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Watched clients take every request made inside for one of the conversation `name`, whatever it says.

    It holds for the thread or task it is entered in, for tasks that are started inside, and for `asyncio.to_thread`; a
    thread of a pool enters it itself. The inner one counts where two are entered. Raises `UsageError` for what is no
    name.

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
    """The name that holds here, empty where none does."""
    return _NAME.get()
