"""The radix tree against a list of runs that is searched token by token, and against itself after a snapshot."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextkit.engines.sglang_tree import POLICIES, RadixTree, rules_of
from contextkit.engines.token_ids import pack, shared, view
from contextkit.errors import UsageError
from tests.engines.naive_radix import NaiveRadix

STREAMS = {False: 15, True: 1_500}
"""Whether `--full` was given → random streams of operations for each of the seven policies."""

TRUNKS = ([1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3], [1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1], [2] * 12)
"""What prompts begin with, so that they have much in common and part anywhere."""


def _prompt(trunk: int, cut: int, tail: list[int]) -> list[int]:
    return TRUNKS[trunk][:cut] + tail


tokens = st.builds(_prompt, st.integers(0, 2), st.integers(0, 12), st.lists(st.sampled_from([1, 2]), max_size=3))
spaces = st.sampled_from([(None, None)] * 8 + [("k", None), (None, "a"), ("k", "a")])
operations = st.one_of(
    st.tuples(st.just("insert"), tokens, spaces, st.integers(0, 2), st.integers(0, 6)),
    st.tuples(st.just("insert"), tokens, spaces, st.just(0), st.just(0)),
    st.tuples(st.just("match"), tokens, spaces, st.booleans()),
    st.tuples(st.just("unlock")),
    st.tuples(st.just("evict"), st.integers(1, 9)),
)
streams = st.tuples(
    st.sampled_from([1, 1, 2, 4]), st.booleans(), st.booleans(), st.lists(operations, min_size=10, max_size=40)
)
"""Page, whether the version is old, whether keys are pairs; operations."""


class Both:
    """One operation on the tree and on the list, and what each says."""

    def __init__(self, page: int, policy: str, is_old: bool, is_eagle: bool) -> None:
        is_old = is_old and policy != "slru"
        self.tree = RadixTree(page, policy, rules_of("0.5.9" if is_old else "0.5.23"), is_eagle=is_eagle)
        self.naive = NaiveRadix(page, policy, is_old, is_eagle)
        self.locked: list[tuple[Any, Any]] = []

    def insert(self, tokens: list[int], space: Any, priority: int, n_inserted: int) -> tuple[Any, Any]:
        inserted = self.tree.insert(pack(tokens), space, priority, n_inserted)
        return inserted.length, self.naive.insert(tokens, space, priority, n_inserted)

    def match(self, tokens: list[int], space: Any, is_locking: bool) -> tuple[Any, Any]:
        measured, one = self.tree.measure(pack(tokens), space), self.tree.match(pack(tokens), space)
        length, run = self.naive.match(tokens, space)
        if is_locking:
            self.tree.lock(one.node)
            self.naive.lock(run, 1)
            self.locked.append((one.node, run))
        return (measured, one.length), (length, length)

    def unlock(self) -> tuple[Any, Any]:
        if self.locked:
            node, run = self.locked.pop(0)
            self.tree.unlock(node)
            self.naive.lock(run, -1)
        return None, None

    def evict(self, n_tokens: int) -> tuple[Any, Any]:
        return [list(slots) for slots in self.tree.evict(n_tokens)], self.naive.evict(n_tokens)

    def states(self) -> tuple[Any, Any]:
        one = (self.tree.evictable, self.tree.protected, self.tree.n_nodes, self.tree.lengths())
        other = (
            self.naive.total(is_locked=False),
            self.naive.total(is_locked=True),
            len(self.naive.runs),
            self.naive.lengths(),
        )
        return one, other


@pytest.mark.parametrize("policy", POLICIES)
def test_the_tree_is_the_list_of_runs_whatever_is_done_to_it(policy: str, request: pytest.FixtureRequest) -> None:
    """Lengths, shapes, sizes and the order of eviction to the last leaf, for each page, version and key."""

    @settings(
        max_examples=STREAMS[request.config.getoption("--full")], deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(streams)
    def check(stream: Any) -> None:
        page, is_old, is_eagle, operations = stream
        both = Both(page, policy, is_old, is_eagle)
        drain = [("unlock",)] * len(operations) + [("evict", 1)] * 40
        for name, *arguments in [*operations, *drain]:
            one, other = getattr(both, name)(*arguments)
            assert one == other
            one, other = both.states()
            assert one == other

    check()


@given(st.binary(max_size=64), st.binary(max_size=64), st.sampled_from([1, 2, 4]), st.integers(0, 8))
def test_shared_counts_equal_steps(one: bytes, other: bytes, step: int, at: int) -> None:
    one = other[:at] + other[: len(one)] + one  # so that much is equal often
    limit = min(max(0, len(one) - at), len(other))
    equal = 0
    while equal + step <= limit and one[at + equal : at + equal + step] == other[equal : equal + step]:
        equal += step
    assert shared(one, at, other, 0, limit, step) == equal


def test_any_sequence_of_ids_is_the_same_memory() -> None:
    ids = [0, 5, 2**31 - 1, -7]
    assert (
        pack(ids) == pack(tuple(ids)) == pack(array("i", ids)) == pack(array("q", ids))
        and array("i", pack(ids)).tolist() == ids
    )
    assert pack(array("I", [7])) == pack(range(7, 8))


@pytest.mark.parametrize("ids", [[2**31], ["secret"]])
def test_what_is_no_token_id_is_refused_without_showing_it(ids: Any) -> None:
    with pytest.raises(UsageError, match="32-bit integers") as raised:
        pack(ids)
    assert "secret" not in str(raised.value)


def test_a_version_refuses_a_policy_it_does_not_have() -> None:
    with pytest.raises(UsageError, match=r"'slru'.*choose one of lru, lfu, fifo, mru, filo, priority"):
        RadixTree(policy="slru", rules=rules_of("0.5.9"))
    with pytest.raises(UsageError, match="page of 0"):
        RadixTree(page=0)


def test_the_heap_does_not_grow_with_what_was_only_looked_at() -> None:
    tree = RadixTree()
    for number in range(50):
        tree.insert(pack([number, number]))
    for _ in range(200):
        for number in range(50):
            tree.match(pack([number, number]))
        tree.lock(tree.match(pack([0, 0])).node)
        tree.evict(0)
    assert len(tree._heap) <= 2 * tree.n_nodes + 64


def test_old_insertions_keep_a_cut_page() -> None:
    old, new = RadixTree(4, rules=rules_of("0.5.9")), RadixTree(4)
    for tree in (old, new):
        tree.insert(pack(range(6)))
    assert (old.total, new.total) == (6, 4)
    assert old.match(pack(range(6))).length == new.match(pack(range(6))).length == 4


def test_old_lfu_is_lru() -> None:
    victims = {}
    for version in ("0.5.9", "0.5.23"):
        tree = RadixTree(policy="lfu", rules=rules_of(version))
        for ids in ([1, 2], [1, 2], [3, 4]):
            tree.insert(pack(ids))
        victims[version] = tree.evict(1)
    assert victims == {"0.5.9": [range(2)], "0.5.23": [range(4, 6)]}


def test_what_the_caller_does_to_its_tokens_afterwards_changes_nothing() -> None:
    tree, ids = RadixTree(), array("i", range(100))
    tree.insert(view(ids))
    ids[50] = 7
    ids.append(7)
    assert tree.match(pack(range(100))).length == 100 and tree.match(view(ids)).length == 50


def test_going_on_behind_a_lookup_is_inserting_the_whole() -> None:
    one, other = RadixTree(2, "lfu"), RadixTree(2, "lfu")
    for ids in ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7], [1, 2, 9, 9], [1, 2, 3, 4, 5, 6, 8, 8]):
        match = one.match(pack(ids))
        assert one.extend(match, pack(ids[match.length :])).length == match.length
        other.match(pack(ids))
        assert other.insert(pack(ids)).length == match.length and one.lengths() == other.lengths()
    assert [one.evict(1) for _ in range(6)] == [other.evict(1) for _ in range(6)]


def test_memory_of_what_was_forgotten_is_let_go() -> None:
    tree = RadixTree(policy="mru")
    tree.insert(pack(range(1000)))
    for length in (10, 400, 600):
        tree.match(pack(range(length)))
    sizes = []
    while tree.total:
        sizes.append(
            sum(len(memory) for memory in {id(node.memory): node.memory for node in tree.nodes()}.values())
            <= 2 * 4 * tree.total
        )
        tree.evict(1)
    assert sizes == [True] * 4
