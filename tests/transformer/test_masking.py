"""Under a mask only allowed calls are sampled, and the cache in front of them is the one without a mask."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from contextkit.errors import UsageError
from contextkit.transformer.engine import Engine
from contextkit.transformer.masking import HEAD, OPEN, Mode, calls, generate_masked, masked, prefill, sampled
from contextkit.transformer.model import Bytes, Model
from contextkit.transformer.weights import Shape, seeded

MODEL = Model(seeded(Shape(n_kv_heads=2)))
FAMILY = ["browser_open", "browser_click", "browser_close"]
ALL = [*FAMILY, "search", "write"]
PROMPT = Bytes().encode("tools: browser_open browser_click browser_close search write\nuser: buy me a GPU\n")


def said(names: list[str], mode: Mode, seed: int, n: int = 40, begin: str | None = None) -> str:
    engine, bytes_ = Engine(MODEL), Bytes()
    run = engine.open()
    engine.feed([(run, PROMPT)])
    begun = bytes_.encode(prefill(names, mode) if begin is None else begin)
    made = generate_masked(engine, run, n, calls(names, mode, bytes_), begun, sampled(seed, temperature=4))
    return bytes(min(token, 255) for token in made).decode("latin-1")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("names", "mode"), [(ALL, "required"), (FAMILY, "specified")])
def test_a_forced_call_is_always_an_allowed_one(names: list[str], mode: Mode, seed: int) -> None:
    text = said(names, mode, seed)
    assert re.match(re.escape(HEAD) + "(?:" + "|".join(names) + ')"', text)


def test_each_allowed_name_is_reached() -> None:
    found = {re.match(re.escape(HEAD) + r"(\w+)", said(FAMILY, "specified", seed))[1] for seed in range(30)}  # type: ignore[index]
    assert found == set(FAMILY)


@pytest.mark.parametrize("seed", range(8))
def test_a_call_the_model_opens_itself_names_an_allowed_tool(seed: int) -> None:
    assert re.match(
        re.escape(f"Well. {HEAD}") + '(?:search|write)"', said(["search", "write"], "auto", seed, begin=f"Well. {OPEN}")
    )


def test_where_no_call_is_allowed_none_can_be_opened() -> None:
    assert said(ALL, "none", 0, n=1, begin=OPEN[:-1])[-1] != ">"
    assert Bytes().encode(">")[0] in calls(ALL, "none", Bytes())(Bytes().encode("a"))


@pytest.mark.parametrize("mode", ["auto", "required", "specified", "none"])
def test_a_mask_moves_nothing_in_front_of_the_tail(mode: Mode) -> None:
    engine = Engine(MODEL)
    run = engine.open()
    run.cache.reserve(300)
    engine.feed([(run, PROMPT)])
    held = [run.cache.read(layer, len(PROMPT)) for layer in range(4)]
    before, work = [[part.copy() for part in layer] for layer in held], engine.work.copy()
    begun = Bytes().encode(prefill(FAMILY, mode))
    generate_masked(engine, run, 10, calls(FAMILY, mode, Bytes()), begun, sampled(1))
    for layer in range(4):
        for was, view, now in zip(before[layer], held[layer], run.cache.read(layer, len(PROMPT)), strict=True):
            assert np.shares_memory(view, now)
            assert (was[:, :-1] == now[:, :-1]).all() and abs(
                was - now
            ).max() < 1e-12  # the last row is read anew for its logits
    assert engine.work.since(work).positions == max(len(begun), 1) + 9


def test_what_the_mask_leaves_keeps_its_odds() -> None:
    logits = np.array([1.0, 5.0, 2.0, 4.0])
    left = np.exp(masked(logits, [0, 2]))
    assert left[[1, 3]].tolist() == [0, 0] and left[2] / left[0] == pytest.approx(np.e)


def test_a_mask_that_allows_nothing_says_so() -> None:
    with pytest.raises(UsageError, match="allows no token at all"):
        masked(np.zeros(4), [])


def test_any_vocabulary_can_be_masked() -> None:
    model = Model(seeded(replace(MODEL.shape, vocabulary=5)))
    engine = Engine(model)
    run = engine.open()
    engine.feed([(run, [0, 1])])
    assert set(generate_masked(engine, run, 20, lambda made: [3, 4] if len(made) % 2 else [2])[1::2]) <= {3, 4}
