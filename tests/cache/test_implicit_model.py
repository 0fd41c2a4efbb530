"""Implicit caches against a second opinion: every prefix of every prompt as a list with its own expiry."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.implicit_cache import ImplicitCache
from contextkit.cache.prefix_cache import Lease
from contextkit.cache.prompt import Prompt, common
from contextkit.cache.usage import Usage
from tests.scale import n_examples


class Block(NamedTuple):
    """One block of a conversation."""

    text: str
    tokens: int = 100
    level: int = 2


def prompt_of(conversation: Sequence[Block], settings: tuple[str, str, str] = ("", "", "")) -> Prompt:
    digest, total = b"", 0
    digests, ends = [], []
    for block in conversation:
        digest = hashlib.sha256(digest + repr((block.level, block.text)).encode()).digest()
        total += block.tokens
        digests.append(digest)
        ends.append(total)
    levels = [block.level for block in conversation]
    namespaces = tuple(repr(settings[: level + 1]).encode() for level in range(3))
    n = len(digests)
    return Prompt(namespaces, (levels.count(0), levels.count(0) + levels.count(1)), digests, ends, range(n), (), n)


class Naive:
    """Every prefix of every prompt as a list, with its own expiry; slow and obvious."""

    def __init__(self, min_tokens: int, granularity: int, ttl: float) -> None:
        self.min_tokens, self.granularity, self.ttl = min_tokens, granularity, ttl
        self.expiries: list[list] = []

    @staticmethod
    def prefixes(conversation: list[Block], settings: tuple[str, str, str]) -> list:
        return [
            (settings[: block.level + 1], [(b.level, b.text) for b in conversation[: i + 1]])
            for i, block in enumerate(conversation)
        ]

    def begin(self, conversation: list[Block], settings: tuple[str, str, str], now: float) -> tuple[int, list]:
        prefixes = self.prefixes(conversation, settings)
        live = [prefix for prefix, expires in self.expiries if expires > now]
        shared = max((i + 1 for i, prefix in enumerate(prefixes) if prefix in live), default=0)
        self.store(prefixes[:shared], now, now)
        read = sum(block.tokens for block in conversation[:shared]) // self.granularity * self.granularity
        return (read if read >= self.min_tokens else 0), prefixes

    def store(self, prefixes: list, at: float, now: float) -> None:
        self.expiries = [pair for pair in self.expiries if pair[1] > now]
        for prefix in prefixes:
            known = next((pair for pair in self.expiries if pair[0] == prefix), None)
            if known:
                known[1] = max(known[1], at + self.ttl)
            else:
                self.expiries.append([prefix, at + self.ttl])


PATHS = ["", "aa", "ab", "aaa", "aab", "aba", "aaaa", "aabb", "aaaaab", "aaaabb", "aabbbb", "aaaabbbbb"]
BEGINS = st.tuples(
    st.sampled_from(["call", "call", "begin"]),
    st.tuples(st.sampled_from(PATHS), st.sampled_from([("m", "", "")] * 6 + [("m", "", "none"), ("n", "", "")])),
)
PUBLISHES = st.tuples(st.just("publish"), st.integers(0, 1))
WAITS = st.tuples(st.just("wait"), st.sampled_from([1, 100, 150, 150, 299.5, 300, 90_000]))
STEPS = st.lists(st.one_of(BEGINS, BEGINS, PUBLISHES, WAITS, WAITS), min_size=5, max_size=40)


@settings(max_examples=n_examples(80, 2_000), deadline=None)
@given(STEPS, st.sampled_from([(0, 1), (6, 1), (4, 4), (5, 2)]))
def test_it_agrees_with_comparing_whole_prefixes(steps: list, rule: tuple[int, int]) -> None:
    cache, naive = ImplicitCache(*rule, 300), Naive(*rule, 300)
    open_calls: list[tuple[Lease, list]] = []
    sent: list[Prompt] = []
    now = 0.0
    for what, value in steps:
        if what == "wait":
            now += value
        elif what == "publish" and value < len(open_calls):
            lease, prefixes = open_calls.pop(value)
            cache.publish(lease, now)
            naive.store(prefixes, lease.at, now)
        elif what != "publish":
            path, namespace = value
            sizes = {"a": 3, "b": 2}
            conversation = [
                Block("tools", 2, 0),
                Block("system", 3, 1),
                *(Block(letter, sizes[letter]) for letter in path),
            ]
            prompt = prompt_of(conversation, namespace)
            seen, quoted = cache.lookup(prompt, now), cache.quote(prompt, now)
            lease = cache.begin(prompt, now)
            read, prefixes = naive.begin(conversation, namespace, now)
            assert (seen.read_tokens, lease.hit.read_tokens) == (read, read)
            assert quoted == lease.usage == Usage(prompt.n_tokens - read, read, 0, 0, 0)
            assert (seen.reason == "hit") is (read > 0) is (seen.segment is not None)
            longest = max((common(prompt, other) for other in sent), default=0)
            assert read <= (prompt.ends_tokens[longest - 1] if longest else 0)
            sent.append(prompt)
            if what == "begin":
                open_calls.append((lease, prefixes))
            else:
                cache.publish(lease, now)
                naive.store(prefixes, lease.at, now)
