"""Invariant 10: any mix of features keeps every other invariant, for every provider."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.compositions import COMPOSED, Composition, operations, setups

N_COMPOSITIONS = {False: 300, True: 5_000}
"""Whether `--full` was given → compositions, over all providers together."""


@pytest.mark.parametrize("name", COMPOSED)
def test_any_composition_keeps_the_invariants(name: str, request: pytest.FixtureRequest) -> None:
    is_full = request.config.getoption("--full")
    n_examples = -(-N_COMPOSITIONS[is_full] // len(COMPOSED))

    @given(st.data())
    @settings(max_examples=n_examples, deadline=None, suppress_health_check=list(HealthCheck))
    def law(data: st.DataObject) -> None:
        setup = data.draw(setups(name))
        Composition(setup, is_thorough=is_full).run(data.draw(operations()))

    law()
