"""Breakpoint caches against a second opinion: whole prefixes in a plain list, without digests, windows or arithmetic on
ends."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prefix_cache import Lease
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from tests.scale import n_examples

FIVE, HOUR = 300, 3600


class Block(NamedTuple):
    """One block of a conversation."""

    text: str
    tokens: int = 100
    level: int = 2
    run: str = ""


def prompt_of(
    conversation: Sequence[Block], marks: Sequence[Breakpoint], settings: tuple[str, str, str] = ("", "", "")
) -> Prompt:
    digest, total, position = b"", 0, -1
    digests, ends, positions = [], [], []
    for index, block in enumerate(conversation):
        digest = hashlib.sha256(digest + repr((block.level, block.text)).encode()).digest()
        total += block.tokens
        position += not (index and block.run and block.run == conversation[index - 1].run)
        digests.append(digest)
        ends.append(total)
        positions.append(position)
    levels = [block.level for block in conversation]
    namespaces = tuple(repr(settings[: level + 1]).encode() for level in range(3))
    return Prompt(
        namespaces,
        (levels.count(0), levels.count(0) + levels.count(1)),
        digests,
        ends,
        positions,
        tuple(marks),
        len(digests),
    )


@dataclass
class Naive:
    """Entries as whole prefixes of blocks, found by comparing lists; slow and obvious."""

    min_tokens: int
    is_ttl_interchangeable: bool
    entries: list[dict] = field(default_factory=list)

    @staticmethod
    def prefix(conversation: list[Block], settings: tuple[str, str, str], segment: int) -> tuple:
        return settings[: conversation[segment].level + 1], [
            (block.level, block.text) for block in conversation[: segment + 1]
        ]

    def same(self, entry: dict, mark: Breakpoint, prefix: tuple) -> bool:
        return entry["prefix"] == prefix and (self.is_ttl_interchangeable or entry["ttl"] == mark.ttl_seconds)

    def begin(
        self, conversation: list[Block], settings: tuple[str, str, str], marks: list[Breakpoint], now: float
    ) -> dict:
        sizes = [sum(block.tokens for block in conversation[: i + 1]) for i in range(len(conversation))]
        hits = []
        for mark in marks:
            visited, at, last_run = 1, mark.segment, None
            while at >= 0:
                run = conversation[at].run
                visited += last_run is not None and not (run and run == last_run)
                if visited > mark.lookback:
                    break
                prefix = self.prefix(conversation, settings, at)
                live = [entry for entry in self.entries if entry["expires"] > now and sizes[at] >= self.min_tokens]
                hits += [(at, entry) for entry in live if self.same(entry, mark, prefix)]
                last_run, at = run, at - 1
        best, read_entry = max(hits, key=lambda hit: hit[0], default=(-1, None))
        for entry in self.entries:
            standing = any(
                m.segment <= best and self.same(entry, m, self.prefix(conversation, settings, m.segment)) for m in marks
            )
            if entry["expires"] > now and (standing or entry is read_entry):
                entry["expires"] = max(entry["expires"], now + entry["ttl"])
        written = [mark for mark in marks if mark.is_written and sizes[mark.segment] >= self.min_tokens]
        read = sizes[best] if best >= 0 else 0
        kinds = ["fresh"] * sizes[-1]  # one word per token: the bill by counting
        for mark in sorted(written, key=lambda mark: mark.ttl_seconds):
            kinds[: sizes[mark.segment]] = [str(mark.ttl_seconds)] * sizes[mark.segment]
        kinds[:read] = ["read"] * read
        usage = Usage(kinds.count("fresh"), kinds.count("read"), kinds.count("300"), kinds.count("3600"), 0)
        return {
            "usage": usage,
            "at": now,
            "writes": [(m, self.prefix(conversation, settings, m.segment)) for m in written],
        }

    def publish(self, call: dict, now: float) -> None:
        for mark, prefix in call["writes"]:
            old = next((entry for entry in self.entries if self.same(entry, mark, prefix)), None)
            if old and old["expires"] > now:
                old["ttl"] = max(old["ttl"], mark.ttl_seconds)
                old["expires"] = max(old["expires"], call["at"] + old["ttl"])
            else:
                self.entries = [entry for entry in self.entries if entry is not old]
                self.entries.append(
                    {"prefix": prefix, "ttl": mark.ttl_seconds, "expires": call["at"] + mark.ttl_seconds}
                )


PATHS = ["", "a", "aa", "aab", "aabb", "aabbc", "aabbca", "aabbcab", "aabbcabaa", "aaa", "aaab", "abba"]
MARKS = st.tuples(
    st.integers(0, 6),
    st.sampled_from([FIVE, HOUR]),
    st.sampled_from([1, 2, 4, 20]),
    st.sampled_from([True, True, False]),
)
SETTINGS = [("m", "", "auto")] * 6 + [("m", "", "none"), ("m", "x", "auto"), ("n", "", "auto")]
BEGINS = st.tuples(
    st.sampled_from(["call", "call", "begin"]),
    st.tuples(st.sampled_from(PATHS), st.sampled_from(SETTINGS), st.lists(MARKS, min_size=1, max_size=4)),
)
PUBLISHES = st.tuples(st.just("publish"), st.integers(0, 1))
WAITS = st.tuples(st.just("wait"), st.sampled_from([1, 100, 150, 150, 299.5, 300, 3300]))
STEPS = st.lists(st.one_of(BEGINS, BEGINS, PUBLISHES, WAITS), min_size=5, max_size=30)


def conversation_of(path: str) -> list[Block]:
    """A head of two and a path whose letters decide size and run: equal paths are equal conversations."""
    sizes, runs = {"a": 3, "b": 2, "c": 0}, {"a": "", "b": "tool_result", "c": "tool_result"}
    return [
        Block("tools", 2, 0),
        Block("system", 3, 1),
        *(Block(letter, sizes[letter], run=runs[letter]) for letter in path),
    ]


@settings(max_examples=n_examples(80, 2_000), deadline=None)
@given(STEPS, st.booleans(), st.sampled_from([0, 6, 12]))
def test_it_agrees_with_comparing_whole_prefixes(steps: list, is_ttl_interchangeable: bool, min_tokens: int) -> None:
    cache = BreakpointCache(min_tokens, is_ttl_interchangeable=is_ttl_interchangeable)
    naive = Naive(min_tokens, is_ttl_interchangeable)
    open_calls: list[tuple[Lease, dict]] = []
    now = 0.0
    for what, value in steps:
        if what == "wait":
            now += value
        elif what == "publish" and value < len(open_calls):
            lease, call = open_calls.pop(value)
            cache.publish(lease, now)
            naive.publish(call, now)
        elif what != "publish":
            path, namespace, raw = value
            conversation = conversation_of(path)
            places = {max(len(conversation) - 1 - back, 0): rest for back, *rest in raw}
            marks = [Breakpoint(at, *places[at]) for at in sorted(places)]
            prompt = prompt_of(conversation, marks, namespace)
            seen, quoted = cache.lookup(prompt, now), cache.quote(prompt, now)
            lease, call = cache.begin(prompt, now), naive.begin(conversation, namespace, marks, now)
            assert quoted == lease.usage == call["usage"]
            assert lease.usage.prompt == prompt.n_tokens
            assert (seen.read_tokens, seen.segment, seen.reason) == (
                lease.hit.read_tokens,
                lease.hit.segment,
                lease.hit.reason,
            )
            assert (seen.reason == "hit") is (seen.segment is not None)
            if what == "begin":
                open_calls.append((lease, call))
            else:
                cache.publish(lease, now)
                naive.publish(call, now)
