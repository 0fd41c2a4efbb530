"""Each method keeps its invariant exactly, and shows on seeded weights what was published of it on trained ones.

Where seeded weights lack the structure a result needs, `with_sink` builds it in, or a text has it; the test says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from contextkit.errors import UsageError
from contextkit.transformer import ops
from contextkit.transformer.engine import Engine
from contextkit.transformer.kv_cache import PagedCache, Pool
from contextkit.transformer.methods.blended import alone, blended
from contextkit.transformer.methods.diffusion import Elastic, everything
from contextkit.transformer.methods.prefix_blocks import PrefixEngine, names
from contextkit.transformer.methods.pruned import FastTier, PrunedModel, Pruning, chosen
from contextkit.transformer.methods.streaming import SinkCache, stream, with_sink
from contextkit.transformer.model import Model, Step, Work
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Positions, Shape, Weights, seeded
from tests.scale import n_examples

GQA = Shape(n_kv_heads=2)
MASK = 257


def text(n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 256, n).tolist()


def plain(model: Model, tokens: list[int]) -> Array:
    """Logits of every token, nothing left out."""
    engine = Engine(model)
    (logits,) = engine.feed([(engine.open(), tokens)], every=True)
    return logits


def rms(a: Array) -> float:
    return float(np.sqrt((a * a).mean()))


# Paged blocks, shared prefixes
# ------------------------------------------------------------------------------------------------------------


def test_prompts_with_one_beginning_share_its_blocks_and_answer_as_alone() -> None:
    model, pool = Model(seeded(GQA)), Pool(GQA, n_blocks=20, block=8)
    engine, head = PrefixEngine(model, pool), text(40)
    one, two = [*head, 1, 2, 3], [*head, 4, 5]
    first, n_found, logits = engine.begin(one, list(names(one, 8)))
    assert n_found == 0 and abs(logits - plain(model, one)[-1:]).max() < 1e-10
    second, n_found, logits = engine.begin(two, list(names(two, 8)))
    assert n_found == 40 and abs(logits - plain(model, two)[-1:]).max() < 1e-10
    assert isinstance(first.cache, PagedCache) and isinstance(second.cache, PagedCache)
    assert first.cache.table[:5] == second.cache.table[:5] and first.cache.table[5] != second.cache.table[5]
    assert engine.work.positions == len(one) + 2


def test_who_writes_into_a_shared_block_copies_it_first() -> None:
    model, pool = Model(seeded(GQA)), Pool(GQA, n_blocks=20, block=8)
    engine, tokens = PrefixEngine(model, pool), text(12)
    run, _, _ = engine.begin(tokens, list(names(tokens, 8)))
    assert isinstance(run.cache, PagedCache)
    fork = run.cache.fork()
    before = [part.copy() for part in run.cache.read(0, 12)]
    model.forward([Step(fork, [7])], Work())
    assert fork.table[0] == run.cache.table[0] and fork.table[1] != run.cache.table[1]
    assert all((a == b).all() for a, b in zip(before, run.cache.read(0, 12), strict=True))


def test_freed_blocks_are_found_until_their_room_is_needed() -> None:
    model, pool = Model(seeded(GQA)), Pool(GQA, n_blocks=4, block=8)
    engine, tokens = PrefixEngine(model, pool), text(20)
    engine.begin(tokens, list(names(tokens, 8)))[0].cache.cut(0)
    run, n_found, _ = engine.begin(tokens, list(names(tokens, 8)))
    assert n_found == 16
    run.cache.cut(0)
    other = text(30, seed=1)
    engine.begin(other, list(names(other, 8)))[0].cache.cut(0)
    assert engine.begin(tokens, list(names(tokens, 8)))[1] == 0


# Sinks and a window
# -----------------------------------------------------------------------------------------------------------------------


def sinking(strength: float = 2.5) -> Model:
    """A model with a sink at its first token, 256; seeded weights have none."""
    return Model(with_sink(seeded(Shape(positions="rope_at_read")), 256, strength))


def test_a_stream_is_exact_while_it_fits_and_never_holds_more() -> None:
    model, tokens = Model(seeded(Shape(positions="rope_at_read"))), text(90)
    cache, expected = SinkCache(model.shape, sinks=4, window=28), plain(model, tokens)
    assert abs(stream(model, cache, tokens[:32], Work()) - expected[:32]).max() < 1e-10
    sinks = cache.read(0, 4)[0].copy()
    stream(model, cache, tokens[32:], Work())
    assert cache.n_rows == 32
    assert (cache.read(0, 4)[0] == sinks).all()
    wide = SinkCache(model.shape, sinks=4, window=90)
    assert abs(stream(model, wide, tokens, Work()) - expected).max() < 1e-10


def test_what_was_dropped_cannot_be_recalled() -> None:
    model = Model(seeded(Shape(positions="rope_at_read", n_layers=1)))
    one, other = text(60), text(60)
    other[10] = (one[10] + 1) % 256
    last = [stream(model, SinkCache(model.shape, 4, 20), tokens, Work())[-1] for tokens in (one, other)]
    assert (last[0] == last[1]).all()


def test_sink_and_window_stay_near_full_attention_where_a_window_alone_does_not() -> None:
    model, tokens = sinking(), [256, *text(250)]
    expected = plain(model, tokens)
    errors = {
        sinks: np.sqrt(
            ((stream(model, SinkCache(model.shape, sinks, 32 - sinks), tokens, Work()) - expected) ** 2).mean(axis=1)
        )
        for sinks in (0, 1, 4)
    }
    assert errors[0][:32].max() < 1e-10 and errors[0][33:].mean() > 0.5  # wrong from the moment the sink leaves
    assert max(errors[1][33:].mean(), errors[4][33:].mean()) < 0.2
    assert max(errors[1].max(), errors[4].max()) < errors[0][33:].mean()  # and stays so, however long the stream


def test_a_stream_needs_positions_that_are_rotated_when_read() -> None:
    with pytest.raises(UsageError, match="rope_at_read"):
        SinkCache(Shape())


# Pruned attention, offloaded rows
# ---------------------------------------------------------------------------------------------------------


def alike(t: int, likeness: float, seed: int = 0) -> tuple[Array, Array]:
    """Queries (4, 16) and keys (t, 16).

    Neighbouring keys are as alike as trained ones are said to be, or not at all at 0.
    """
    draw = np.random.default_rng(seed)
    k = draw.standard_normal((t, 16))
    for i in range(1, t):
        k[i] = likeness * k[i - 1] + np.sqrt(1 - likeness**2) * k[i]
    return draw.standard_normal((4, 16)), k


def recall(likeness: float, pruning: Pruning, t: int = 1024) -> float:
    """Share of the best keys, by their best head, that pruning keeps.

    As many are looked for as it keeps. Mean of 8 seeds.
    """
    shares = []
    for seed in range(8):
        q, k = alike(t, likeness, seed)
        kept, _ = chosen(q, k, pruning)
        middle = np.arange(pruning.sinks, t - pruning.window)
        best = middle[np.argsort(-(k[middle] @ q.T).max(axis=1))[: len(kept)]]
        shares.append(len(np.intersect1d(kept, best)) / len(best))
    return float(np.mean(shares))


def test_recall_of_the_best_keys_lives_by_their_likeness() -> None:
    pruning = Pruning(stages=((16, 256), (4, 128)))
    found = [recall(likeness, pruning) for likeness in (0.0, 0.9, 0.98)]
    assert found[0] < found[1] < found[2] and found[2] > 0.7
    by_chance = 128 / (1024 - 36)
    assert found[0] > 2 * by_chance
    budgets = [recall(0.98, Pruning(stages=((16, 2 * n), (4, n)))) for n in (64, 128, 256)]
    assert budgets == sorted(budgets)


def runs_of(n: int) -> list[int]:
    """A text of runs of one byte: neighbours are alike."""
    return [token for token in text(n // 16) for _ in range(16)]


def decoded(model: Model, prompt: list[int], following: list[int]) -> Array:
    engine = Engine(model)
    run = engine.open()
    engine.feed([(run, prompt)])
    return np.concatenate([engine.decode([run], [token])[0] for token in following])


def test_a_budget_for_all_keys_is_dense_attention_and_more_budget_is_less_error() -> None:
    weights, prompt, following = seeded(GQA), runs_of(192), runs_of(16)
    expected = decoded(Model(weights), prompt, following)
    everything_kept = PrunedModel(weights, Pruning(stages=((16, 256), (4, 256))))
    assert abs(decoded(everything_kept, prompt, following) - expected).max() < 1e-10
    errors = [
        rms(
            decoded(PrunedModel(weights, Pruning(window=16, stages=((16, 2 * n), (4, n)))), prompt, following)
            - expected
        )
        for n in (16, 48, 96)
    ]
    assert errors == sorted(errors, reverse=True) and errors[0] > 0.01


class Noting(FastTier):
    """What was asked for last."""

    def ask(self, names: Iterable[Hashable]) -> int:
        self.last = list(names)
        return super().ask(self.last)


@pytest.mark.parametrize("positions", ["rope", "rope_at_read"])
def test_beyond_the_length_a_row_reads_what_it_keeps_as_a_short_text(positions: Positions) -> None:
    """Rows of layer 0 are made of their tokens alone: a model that was given only those answers the same."""
    weights = seeded(Shape(n_layers=1, n_kv_heads=1, positions=positions))
    pruning = Pruning(sinks=2, window=8, stages=((16, 64), (4, 32)), refresh=1, dense_layers=0, length=64)
    model, tokens = PrunedModel(weights, pruning), text(1000)
    model.attended_keys = tier = Noting(1 << 30)
    last = decoded(model, tokens[:-1], tokens[-1:])
    rows = [row for _, _, row in tier.last]  # type: ignore[misc]
    assert len(rows) <= pruning.most_rows <= 64 and rows == sorted(rows) and rows[-1] == 999
    assert abs(last - plain(Model(weights), [tokens[row] for row in rows])[-1:]).max() < 1e-10
    absolute = PrunedModel(weights, replace(pruning, length=None))  # which stands at position 999, and is off
    assert rms(decoded(absolute, tokens[:-1], tokens[-1:]) - last) > 0.01


def test_within_the_length_nothing_changes_and_a_prefill_beyond_it_is_its_rows_one_by_one() -> None:
    weights, tokens = seeded(GQA), text(150)
    pruning = Pruning(sinks=2, window=16, stages=((16, 64), (4, 32)), refresh=4)
    one, other = (PrunedModel(weights, replace(pruning, length=length)) for length in (None, 128))
    assert (decoded(one, tokens[:80], tokens[80:128]) == decoded(other, tokens[:80], tokens[80:128])).all()
    whole = plain(PrunedModel(weights, replace(pruning, length=128)), tokens)
    assert abs(whole[:128] - plain(Model(weights), tokens[:128])).max() < 1e-10
    stepwise = decoded(PrunedModel(weights, replace(pruning, length=128)), tokens[:128], tokens[128:])
    assert abs(whole[128:] - stepwise).max() < 1e-10


def test_keys_are_found_by_what_they_say_wherever_they_stand() -> None:
    """Share of the keys that say most to the query, of 4,096: chunks numbered below 256, and every key at its place."""
    pruning, shares, t = Pruning(stages=((16, 256), (4, 128))), [], 4096
    for seed in range(4):
        q, k = alike(t, 0.98, seed)
        best = set(np.argsort(-(k[4:-32] @ q.T).max(axis=1))[:128] + 4)
        turned = ops.rope(q, np.full(4, t - 1)), ops.rope(k, np.arange(t))
        found = chosen(q, k, pruning, length=256)[0], chosen(*turned, pruning)[0]
        shares.append([len(best & set(kept.tolist())) / 128 for kept in found])
    numbered, absolute = np.mean(shares, axis=0)
    assert numbered > 1.5 * absolute > 1.5 * 128 / t


def test_a_length_needs_room_for_what_is_kept_and_positions_that_turn() -> None:
    for shape in (Shape(), Shape(positions="learned")):
        with pytest.raises(UsageError, match="keep fewer"):
            PrunedModel(seeded(shape), Pruning(length=64 if shape.positions == "rope" else 4096))


def test_the_size_of_the_fast_tier_changes_hits_and_nothing_else() -> None:
    weights, prompt, following = seeded(GQA), runs_of(192), runs_of(16)
    models = [PrunedModel(weights, Pruning(), fast_rows=rows) for rows in (50, 200, 800)]
    logits = [decoded(model, prompt, following) for model in models]
    assert all((one == logits[0]).all() for one in logits)
    tiers = [model.attended_keys for model in models]
    assert [tier.hits for tier in tiers] == sorted(tier.hits for tier in tiers) and tiers[2].hits > tiers[0].hits
    assert len({tier.hits + tier.misses for tier in tiers}) == 1
    assert tiers[2].cost(slow=10) < tiers[0].cost(slow=10)
    assert len({model.mask_keys.hits + model.mask_keys.misses for model in models}) == 1


def test_a_mask_used_for_more_steps_asks_for_fewer_keys() -> None:
    models = [PrunedModel(seeded(GQA), Pruning(refresh=steps)) for steps in (1, 4, 16)]
    for model in models:
        decoded(model, runs_of(192), runs_of(16))
    asked = [model.mask_keys.hits + model.mask_keys.misses for model in models]
    assert asked[0] > 3 * asked[1] > 9 * asked[2]


def test_a_larger_fast_tier_holds_what_a_smaller_one_does() -> None:
    draw = np.random.default_rng(0)
    stream_of_names = draw.zipf(1.3, 2000).tolist()
    hits = []
    for capacity in (1, 4, 16, 64, 256):
        tier = FastTier(capacity)
        tier.ask(stream_of_names)
        assert tier.hits + tier.misses == 2000
        hits.append(tier.hits)
    assert hits == sorted(hits)


# A chunk blended in
# -----------------------------------------------------------------------------------------------------------------------


def blending(model: Model, share: float, n_first: int = 40) -> tuple[float, int, np.ndarray]:
    """Error of the logits, vectors computed, rows chosen; two chunks and a question."""
    one, two, question = text(n_first, 1), text(50, 2), text(10, 3)
    chunks = [(part, alone(model, part, Work())) for part in (one, two) if part]
    work = Work()
    logits, _, again = blended(model, chunks, question, share, work)
    return rms(logits - plain(model, one + two + question)[-1:]), work.vectors, again


def test_blending_everything_is_exact_and_so_is_one_chunk_in_front() -> None:
    model = Model(seeded(GQA))
    assert blending(model, 1.0)[0] < 1e-10
    assert blending(model, 0.0, n_first=0)[0] < 1e-10


def test_the_rows_that_deviate_most_are_the_right_ones() -> None:
    model = Model(seeded(GQA))
    found = [blending(model, share) for share in (0.0, 0.15, 0.3, 0.5)]
    errors, vectors = [error for error, _, _ in found], [n for _, n, _ in found]
    assert errors == sorted(errors, reverse=True) and vectors == sorted(vectors)
    assert found[3][2].min() >= 40  # the first chunk is a true prefix: nothing of it deviates
    assert errors[3] < errors[0] / 4
    draw = np.random.default_rng(0)
    chunks = [(part, alone(model, part, Work())) for part in (text(40, 1), text(50, 2))]
    expected = plain(model, text(40, 1) + text(50, 2) + text(10, 3))[-1:]
    by_chance = [
        rms(blended(model, chunks, text(10, 3), 0.3, Work(), lambda d, n: draw.permutation(len(d))[:n])[0] - expected)
        for _ in range(6)
    ]
    assert errors[2] < np.mean(by_chance)


# Masked diffusion
# -------------------------------------------------------------------------------------------------------------------------


def diffusing(seed: int = 0) -> Model:
    """Sharp attention, a sink at the first token: what trained models are reported to have, and seeded ones have not."""
    return Model(with_sink(seeded(Shape(vocabulary=258, n_kv_heads=2), seed), 256, 2.0, sharpness=3.0))


def run_elastic(model: Model, threshold: float, seed: int = 0) -> tuple[float, int, list[int]]:
    """Mean error of the window's logits against computing everything.

    Vectors; the first layer computed whole, step by step.
    """
    elastic, errors, froms = Elastic(model, [256, *text(31, seed)], 24, MASK, 8, threshold), [], []
    for _ in range(24):
        tokens = list(elastic.tokens)
        active, logits, first = elastic.step()
        errors.append(rms((logits - everything(model, tokens, Work())[0][active])[:, :MASK]))
        froms.append(first)
    assert MASK not in elastic.tokens
    return float(np.mean(errors)), elastic.work.vectors, froms


def test_a_threshold_that_always_fires_is_decoding_without_a_cache() -> None:
    error, vectors, froms = run_elastic(diffusing(), threshold=2.0)
    assert error < 1e-10 and froms == [0] + [1] * 23  # rows of layer 0 are made of tokens alone
    assert vectors >= 24 * 56 * 4 * 2 * 2


def test_work_grows_and_error_falls_with_the_threshold() -> None:
    found = [
        [run_elastic(diffusing(seed), threshold, seed) for seed in range(n_examples(1, 4))]
        for threshold in (0.0, 0.95, 0.97, 2.0)  # 0.95 is the default
    ]
    errors, vectors = ([sum(run[part] for run in runs) for runs in found] for part in (0, 1))
    assert vectors == sorted(vectors) and errors == sorted(errors, reverse=True)
    assert vectors[0] < vectors[3] / 5
    nothing, some, more = ([first for run in runs for first in run[2][1:]] for runs in found[:3])
    assert set(nothing) == {4}  # only the window and what was written are computed
    assert 0.1 < 1 - some.count(4) / len(some) < 0.5 and errors[1] < 0.9 * errors[0]  # the default does something
    assert {2, 3} < set(more) and more.count(1) < more.count(2) + more.count(3)  # shallow layers are the last to drift


def drifts(weights: Weights) -> tuple[Array, Array]:
    """Mean drift of old rows from a step to the next (layers,), and of the row that is looked at most."""
    model = Model(weights)
    elastic, before, mean, most = Elastic(model, [256, *text(31)], 24, MASK, 8, 2.0), None, [], []
    for _ in range(24):
        known = [place for place, token in enumerate(elastic.tokens) if token != MASK]
        _, rows, looks = everything(model, elastic.tokens, Work())
        if before is not None:
            moved = np.sqrt(((rows.k - before[0].k) ** 2 + (rows.v - before[0].v) ** 2).sum(axis=(1, 3)))[:, before[1]]
            mean.append(moved.mean(axis=1))
            most.append([moved[i, looked[:, before[1]].sum(axis=0).argmax()] for i, looked in enumerate(looks)])
        before = rows, known
        elastic.step()
    return np.mean(mean, axis=0), np.mean(most, axis=0)


def test_drift_grows_with_depth_and_the_most_attended_token_drifts_least() -> None:
    mean, _ = drifts(seeded(Shape(vocabulary=258, n_kv_heads=2)))
    assert mean[0] == 0 and list(mean) == sorted(mean) and mean[3] > 1.3 * mean[1]
    mean, most = drifts(with_sink(seeded(Shape(vocabulary=258, n_kv_heads=2)), 256, 1.5))
    assert list(mean) == sorted(mean) and (most[1:] < mean[1:]).all()
