"""Conversations known by bills and times, for the tests of replays."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall, Record
from contextkit.ledger.misses import analyzed_calls
from contextkit.whatif.replay import ReplayedCall, replayed_call

OPUS, SONNET = "claude-opus-4-5", "claude-sonnet-4-5"
START = 1_765_000_000.0


def call(
    number: int, at: float, *counts: int, model: str = OPUS, session: str = "s", lane: str = "main", seconds: float = 5
) -> ModelCall:
    """A call of so many seconds with these counters: fresh, read, write_5m, write_1h, output."""
    usage = Usage(*counts) if counts else None
    provider = "anthropic" if model.startswith("claude") else "openai"
    began, ended = START + at, START + at + seconds
    return ModelCall(f"{session}/{number}", session, lane, began, None, ended, provider, model, None, usage, None, None)


def conversations_of(records: Iterable[Record]) -> dict[tuple[str, str], list[ReplayedCall]]:
    """Session and lane → its calls as a replay sees them."""
    found: dict[tuple[str, str], list[ReplayedCall]] = {}
    for analyzed in analyzed_calls(records):
        one = "a sum" if analyzed.is_sum else replayed_call(analyzed)
        if not isinstance(one, str):
            found.setdefault((analyzed.call.session, analyzed.call.lane), []).append(one)
    return found


@st.composite
def conversations(draw: st.DrawFn, models: tuple[str, ...]) -> list[ModelCall]:
    """A conversation that grows and is cut, with calls at once, pauses, and writes for either lifetime or for both.

    What a call reads is where an earlier one ended, or anything: a provider may have forgotten, and others write too.
    """
    at, ends, calls = 0.0, [0], []
    for number in range(draw(st.integers(1, 14))):
        at += draw(st.sampled_from([0.5, 3.0, 20.0, 250.0, 299.0, 301.0, 320.0, 900.0, 3500.0, 3700.0, 9000.0]))
        seconds = draw(st.sampled_from([0.0, 2.0, 10.0, 200.0]))
        kept = draw(st.sampled_from([ends[-1], ends[-1], ends[-1], *ends]))
        size = kept + draw(st.integers(1, 20_000))
        read = draw(
            st.sampled_from([kept, kept, kept, 0, *(end for end in ends if end <= size)]) | st.integers(0, size)
        )
        end = size - draw(st.sampled_from([0, 0, 3, size - read]))
        long = draw(st.sampled_from([0, 0, max(end - read, 0), max(end - read, 0) // 2]))
        counts = size - max(end, read), read, max(end - read, 0) - long, long, draw(st.integers(0, 400))
        calls.append(call(number, at, *counts, model=draw(st.sampled_from(models)), seconds=seconds))
        ends.append(max(end, read))
    return calls
