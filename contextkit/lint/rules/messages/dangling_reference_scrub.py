"""Source rules of CKM23 dangling-reference-scrub."""

from __future__ import annotations

from collections.abc import Iterator

from contextkit.lint.requests.history import ABSENT
from contextkit.lint.rules.syntax import FUNCTIONS, IN_CONTENT, IN_HISTORY, AnyFunction, content_writes, text_in
from contextkit.lint.source.rule import Hit, Pattern, View

_NOTICES = (
    "no longer",
    "not available",
    "unavailable",
    "not exist",
    "not found",
    "missing",
    "removed",
    "disconnected",
    "deleted",
    "not installed",
    "not connected",
    "not registered",
)


def _scrubbed_over(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A notice is written over the content of messages that were sent."""
    for write in content_writes(function, view):
        text = text_in(write.value)
        if len(text) < 300 and ABSENT.search(text):
            yield Hit(
                write.node, "messages that were sent give way to a notice that depends on what is there right now"
            )


SOURCE = (Pattern(FUNCTIONS, _scrubbed_over, _NOTICES, is_near=True, also=(IN_HISTORY, IN_CONTENT)),)
