"""What is handed out of a log, a ledger and a prompt cannot be changed by who holds it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context
from contextkit.ledger.calls import Remark

VIEWS: dict[str, Callable[[Context, Any], Any]] = {
    "log.entries": lambda context, request: context.log.entries,
    "log": lambda context, request: context.log,
    "ledger.calls": lambda context, request: context.ledger.calls,
    "ledger.remarks": lambda context, request: context.ledger.remarks,
    "request.prompt.digests": lambda context, request: request.prompt.digests,
    "request.prompt.ends_tokens": lambda context, request: request.prompt.ends_tokens,
    "request.prompt.positions": lambda context, request: request.prompt.positions,
    "request.prompt.breakpoints": lambda context, request: request.prompt.breakpoints,
    "request.layout.blocks": lambda context, request: request.layout.blocks,
    "request.layout.breakpoints": lambda context, request: request.layout.breakpoints,
}
CHANGES: dict[str, Callable[[Any], object]] = {
    "clear": lambda view: view.clear(),
    "pop": lambda view: view.pop(),
    "extend": lambda view: view.extend(view),
    "insert": lambda view: view.insert(0, None),
    "reverse": lambda view: view.reverse(),
    "set": lambda view: view.__setitem__(0, None),
    "delete": lambda view: view.__delitem__(0),
    "append in place": lambda view: view.__iadd__([None]),
}


@pytest.fixture
def context() -> Context:
    context = Context(AnthropicMessages("claude-opus-5", max_tokens=99), system="Be brief.")
    context.user("One.")
    context.failed("aborted", context.request())
    context.ledger.remark(Remark("title", "s", "t"))
    return context


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_what_is_handed_out_cannot_be_changed(context: Context, view: Callable[[Context, Any], Any]) -> None:
    body, digest = context.request().body, context.log.digest
    handed = view(context, context.request())
    before = list(handed)
    for name, change in CHANGES.items():
        with pytest.raises((TypeError, AttributeError)):
            change(handed)
        assert list(view(context, context.request())) == before, name
    assert (context.request().body, context.log.digest) == (body, digest)


def test_a_slice_is_a_copy(context: Context) -> None:
    for handed in (context.log.entries, context.log, context.ledger.calls, context.request().prompt.digests):
        part: Any = handed[:]
        assert list(part) == list(handed)
        part.clear()
        assert len(handed) >= 1


def test_a_view_shows_what_was_appended_since(context: Context) -> None:
    entries, calls = context.log.entries, context.ledger.calls
    n_entries, n_calls = len(entries), len(calls)
    context.user("Two.")
    context.failed("aborted", context.request())
    assert (len(entries), len(calls)) == (n_entries + 1, n_calls + 1)
    assert entries[-1] == context.log[-1] and calls == list(context.ledger)


def test_no_public_attribute_of_a_log_or_a_ledger_hands_out_a_container_that_it_keeps(context: Context) -> None:
    kinds = (MutableMapping, MutableSequence, MutableSet)
    for thing in (context.log, context.ledger, context.log.storage, context.request().prompt, context):
        for name in (
            name for name in dir(thing) if not name.startswith("_") and name != "last_text"
        ):  # there is none yet
            value = getattr(thing, name)
            if isinstance(value, kinds):
                assert getattr(thing, name) is not value, f"{type(thing).__name__}.{name}"
