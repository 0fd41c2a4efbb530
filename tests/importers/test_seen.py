"""What was counted is known again, however much there is of it, in memory that does not grow."""

from __future__ import annotations

import tracemalloc
from hashlib import blake2b

import pytest

from contextkit.importers import dedup as seen
from contextkit.importers.dedup import DigestSet
from contextkit.importers.source import Faults


def test_nothing_is_forgotten_when_it_leaves_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "MOST_AT_HAND", 100)
    known, digests = DigestSet(), [blake2b(b"%d" % i, digest_size=16).digest() for i in range(1_050)]
    assert all(known.is_new(digest) for digest in digests)
    assert not any(known.is_new(digest) for digest in digests)
    assert len(known) == 1_050


def test_memory_does_not_grow_with_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "MOST_AT_HAND", 1_000)
    known = DigestSet()
    tracemalloc.start()
    try:
        sizes = []
        for i in range(20_000):
            known.is_new(blake2b(b"%d" % i, digest_size=16).digest())
            if i in (2_500, 19_500):
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] < sizes[0] + 100_000


def test_kinds_of_faults_are_bounded_and_all_counted() -> None:
    faults = Faults()
    for i in range(3_000):
        faults.add("a", i, f"{i} of something")
    assert len(faults) == 3_000 and len(faults.kept) <= Faults.MOST_KINDS + Faults.MOST
