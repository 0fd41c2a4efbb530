"""A call in the hands of a loop: what failed before it came off is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from contextkit.errors import InvalidCall, UsageError
from contextkit.tools.render import answer
from contextkit.tools.tool import Call, Tool, tool


def made(of: Tool, arguments: Mapping[str, Any] | None = None) -> Call:
    """A call the model made of a tool, which nobody forbids."""
    return Call(
        "c1", of.name, arguments or {}, False, False, of, lambda *said: None, lambda *said: None, lambda name: None
    )


class Flaky:
    """A tool that fails twice."""

    def __init__(self) -> None:
        self.n = 0

    def tool(self) -> Tool:
        def fetch() -> str:
            """Get it."""
            self.n += 1
            if self.n < 3:
                raise TimeoutError(f"no answer to try {self.n}")
            return "got it"

        return tool(fetch)


@pytest.mark.parametrize("tries", [2, 9])
def test_every_failed_try_stands_in_the_one_result(tries: int) -> None:
    one, other = Flaky(), Flaky()
    told = answer(made(one.tool()).run(tries))
    assert told == answer(asyncio.run(made(other.tool()).arun(tries)))
    assert one.n == other.n == min(tries, 3) and told["is_error"] == (tries < 3)
    text = "\n".join(part["text"] for part in told["content"])
    assert all(f"TimeoutError: no answer to try {number}" in text for number in range(1, min(tries, 2) + 1))
    assert text.endswith("got it") == (tries >= 3)


def test_a_call_that_does_not_fit_is_not_made_again() -> None:
    flaky = Flaky()
    call = made(flaky.tool(), {"unknown": 1})
    assert isinstance(call.run(tries=5), InvalidCall) and flaky.n == 0
    with pytest.raises(UsageError, match="tries=0"):
        call.run(tries=0)
