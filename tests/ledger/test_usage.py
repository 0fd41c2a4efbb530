"""Usage by lifetime: construction under old and new names, sums, qualities, and ledgers of before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.cache.usage import OLD_TTLS, ZERO, Usage
from contextkit.ledger.calls import ModelCall, decode, encode

counts = st.none() | st.integers(0, 10**9)
usages = st.builds(
    Usage,
    counts,
    counts,
    output=counts,
    estimated=st.booleans(),
    writes=st.none() | st.dictionaries(st.integers(1, 100_000), counts, max_size=3),
    qualities=st.dictionaries(
        st.sampled_from(["fresh", "read", "writes", "output"]), st.sampled_from(["partial", "estimated"])
    ),
)


@given(usages)
def test_the_json_form_is_read_back(usage: Usage) -> None:
    assert Usage.from_json(usage.to_json()) == usage


@given(usages, usages)
def test_a_sum_knows_what_both_sides_know(one: Usage, other: Usage) -> None:
    total = one + other
    assert total == other + one
    assert total.written == (None if None in (one.written, other.written) else one.written + other.written)
    assert total.write_5m == (None if None in (one.write_5m, other.write_5m) else one.write_5m + other.write_5m)
    assert ZERO + one == one


@given(counts, counts, counts, counts, counts)
def test_the_former_names_are_the_writes_of_five_minutes_and_an_hour(
    fresh: int | None, read: int | None, short: int | None, long: int | None, output: int | None
) -> None:
    usage = Usage(fresh, read, short, long, output)
    assert usage == Usage(fresh=fresh, read=read, write_5m=short, write_1h=long, output=output)
    assert (usage.write_5m, usage.write_1h) == (short, long)
    assert replace(usage, write_5m=5).write_5m == 5
    assert replace(usage, write_5m=5).write_1h == long
    assert eval(repr(usage)) == usage


def test_a_replaced_half_has_the_lifetime_it_had() -> None:
    usage = Usage(fresh=1, read=2, writes={1800: 3, 43200: 4})
    assert replace(usage, write_5m=5, write_1h=6).writes == ((1800, 5), (43200, 6))
    assert replace(usage, write_5m=0).writes == ((43200, 4),)


@pytest.mark.parametrize(
    ("usage", "qualities"),
    [
        (Usage(fresh=1, read=2, writes={300: 3}, output=4), ["billed"] * 4),
        (Usage(fresh=1, read=2, writes={300: None}, output=None), ["billed", "billed", "unknown", "unknown"]),
        (Usage(fresh=1, read=2, writes={}, output=4, estimated=True), ["estimated"] * 4),
        (Usage(1, 2, 0, 0, 4, qualities={"output": "partial"}), ["billed", "billed", "billed", "partial"]),
        (
            Usage(1, 2, 0, 0, 4, qualities={"output": "partial"}) + Usage(1, 2, 0, 0, 4),
            ["billed", "billed", "billed", "partial"],
        ),
    ],
)
def test_each_counter_has_a_quality(usage: Usage, qualities: list[str]) -> None:
    assert [usage.quality(name) for name in ("fresh", "read", "writes", "output")] == qualities


OLD_ROW = (
    b'{"id":"a","session":"s","lane":"main","at":1.0,"first_byte_at":null,"ended_at":null,"provider":"%s","model":"m",'
    b'"prompt":null,"usage":{"fresh":1,"read":2,"write_5m":3,"write_1h":4,"output":5,"estimated":false},'
    b'"predicted":null,"error":null}'
)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_row_of_before_has_the_lifetimes_of_its_provider(provider: str) -> None:
    call = decode(OLD_ROW % provider.encode())
    assert isinstance(call, ModelCall)
    short, long = OLD_TTLS.get(provider, (300, 3600))
    assert call.usage == Usage(1, 2, output=5, writes={short: 3, long: 4})
    assert decode(encode(call)) == call
