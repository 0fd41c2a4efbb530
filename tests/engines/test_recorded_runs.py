"""What real engines answered, replayed on the reference caches: `tests/engines/recorded`."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.engines.agreement import agreement
from contextkit.engines.llamacpp import SlotCache
from contextkit.engines.registry import engine
from tests.engines.cassettes import Cassette, cassettes, read
from tests.engines.llamacpp_configurations import shape_of


def reference(cassette: Cassette) -> object:
    """The cache of a recording."""
    if cassette.engine == "llamacpp":
        return SlotCache(shape_of(cassette.cache["memory"], cassette.server, cassette.cache["slot_tokens"]))
    return engine(cassette.engine, **cassette.cache).cache


@pytest.mark.parametrize("path", cassettes(), ids=lambda path: path.name.partition(".")[0])
def test_the_reference_reads_what_the_engine_read(path: Path) -> None:
    cassette = read(path)
    found = agreement(reference(cassette), cassette.exchanges)
    assert found.total > 0 and found.n_read > 0
    known = [index for index in cassette.differing if index < found.total]
    assert [one.index for one in found.differences] == known, found.differences[:3]
