"""One spelling of a block: what providers do not see is gone, what a model sees stays."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.canonical import canonical
from contextkit.prompt.normal_form import MARKERS, VERBATIM, marker_of, normal

laws = settings.get_profile("laws")
KEYS = st.sampled_from(
    ["type", "text", "b", "a", "input", "schema", "content", "cache_control", "prompt_cache_breakpoint"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)


@given(VALUES)
@laws
def test_twice_is_once(value: object) -> None:
    assert canonical(normal(normal(value))) == canonical(normal(value))


@given(
    st.dictionaries(KEYS.filter(lambda key: key not in VERBATIM), st.integers() | st.text(max_size=3)),
    st.randoms(use_true_random=False),
)
@laws
def test_the_order_of_a_blocks_keys_is_noise(block: dict[str, object], order: object) -> None:
    items = list(block.items())
    order.shuffle(items)  # type: ignore[attr-defined]
    assert canonical(normal(dict(items))) == canonical(normal(block))


@given(st.dictionaries(KEYS, st.integers(), min_size=2))
@laws
def test_the_order_of_arguments_is_meaning(arguments: dict[str, int]) -> None:
    turned = dict(reversed(arguments.items()))
    one, other = (canonical(normal({"type": "tool_use", "input": value})) for value in (arguments, turned))
    assert one != other and json.loads(one)["input"] == arguments


@given(VALUES)
@laws
def test_no_marker_is_left_outside_what_is_verbatim(value: object) -> None:
    assert not _has_marker(normal(value))


def _has_marker(value: object) -> bool:
    if isinstance(value, dict):
        return any(key in MARKERS or (key not in VERBATIM and _has_marker(item)) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_marker, value))


def test_a_marker_is_found_wherever_a_provider_looks() -> None:
    marker = {"type": "ephemeral"}
    assert (
        marker_of({"type": "tool_result", "content": [{"type": "text", "text": "x", "cache_control": marker}]})
        == marker
    )
    assert marker_of({"type": "tool_use", "input": {"cache_control": marker}}) is None
    assert marker_of({"type": "text", "cache_control": None}) is None and marker_of("text") is None
