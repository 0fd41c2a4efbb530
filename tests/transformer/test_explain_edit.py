"""What is said of an edit is what two runs without any cache show, row for row; and the fine points one should know."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from contextkit.errors import UsageError
from contextkit.transformer.costs import forward, stored_vectors
from contextkit.transformer.explain_edit import Edit, Explanation, Fate, explain_edit
from contextkit.transformer.model import Model
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Shape, seeded
from tests.transformer.oracle import VARIANTS, run

MODELS = {name: Model(seeded(replace(shape, d_model=32, d_ff=48, vocabulary=7), 1)) for name, shape in VARIANTS.items()}
CASES = {False: 40, True: 10_000}
TOLERANCE = 1e-11
"""Of the comparison with other code; a different row differs by far more."""


def random_edit(draw: random.Random, n: int) -> Edit:
    at, new = draw.randrange(n), tuple(draw.randrange(7) for _ in range(draw.randint(1, 4)))
    taken = draw.randint(1, min(5, n - at))
    return {
        "append": Edit("append", tokens=new),
        "replace": Edit("replace", at, taken if draw.random() < 0.5 else 0, tokens=new[: n - at]),
        "insert": Edit("insert", at, tokens=new),
        "delete": Edit("delete", 0 if taken == n else at, min(taken, n - 1)),
        "move": Edit("move", at, taken, draw.randint(0, n - taken)),
    }[draw.choice(["append", "replace", "insert", "delete", "move"])]


def edited_by_hand(edit: Edit, old: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same edit by changing a list in place."""
    new = [(token, -1) for token in edit.tokens]
    if edit.kind == "append":
        return old + new
    if edit.kind == "insert":
        old[edit.at : edit.at] = new
        return old
    n = edit.n or len(edit.tokens)
    taken, old[edit.at : edit.at + n] = old[edit.at : edit.at + n], new
    if edit.kind == "move":
        old[edit.to : edit.to] = taken
    return old


def same(one: Array, other: Array) -> bool:
    return bool((abs(one - other) < TOLERANCE).all())


def check(model: Model, tokens: list[int], edit: Edit) -> Explanation:
    found = explain_edit(model, tokens, edit)
    after = edited_by_hand(edit, [(token, i) for i, token in enumerate(tokens)])
    now, origins = [token for token, _ in after], [origin for _, origin in after]
    _, old = run(model.weights, tokens)
    logits, new = run(model.weights, now)
    common = next((i for i, (a, b) in enumerate(zip(tokens, now, strict=False)) if a != b), min(len(tokens), len(now)))
    kept = min(common, len(now) - 1)
    assert (found.n_before, found.n_after, found.n_kept) == (len(tokens), len(now), kept)
    assert found.work.positions == len(now) - kept
    for layer, ((old_k, old_v), (new_k, new_v)) in enumerate(zip(old, new, strict=True)):
        shared = min(len(now), len(tokens))
        differs = [i for i in range(shared) if not (same(old_k[:, i], new_k[:, i]) and same(old_v[:, i], new_v[:, i]))]
        assert found.first_row[layer] == (differs[0] if differs else shared if len(now) > shared else None)
        for i, origin in enumerate(origins):
            fate = found.fates[layer, i]
            if i < kept or origin < 0:
                assert fate == (Fate.KEPT if i < kept else Fate.NEW)
                continue
            same_k, same_v = same(old_k[:, origin], new_k[:, i]), same(old_v[:, origin], new_v[:, i])
            assert (fate == Fate.EQUAL) == (same_k and same_v)
            assert same_v or fate == Fate.CHANGED
    assert found.rows_error < 1e-12 and found.logits_error < 1e-10
    assert len(logits) == len(now)
    return found


def test_random_edits_are_what_brute_force_finds(pytestconfig: pytest.Config) -> None:
    draw, names = random.Random(9), list(MODELS)
    for case in range(CASES[pytestconfig.getoption("--full")]):
        tokens = [draw.randrange(7) for _ in range(draw.randint(1, 14))]
        check(MODELS[names[case % len(names)]], tokens, random_edit(draw, len(tokens)))


# The fine points
# ----------------------------------------------------------------------------------------------------------

TOKENS = [3, 1, 4, 1, 5, 0, 2, 6, 5, 3, 5, 0]


def explained(edit: Edit, variant: str = "MHA") -> Explanation:
    return check(MODELS[variant], TOKENS, edit)


def test_appending_changes_nothing_that_is_there() -> None:
    found = explained(Edit("append", tokens=(1, 2)))
    assert found.first_row == (12,) * 4 and found.work.positions == 2 and found.stale_error == found.logits_error


def test_a_replaced_token_spares_layer_0_and_no_other() -> None:
    found = explained(Edit("replace", 4, tokens=(2,)))
    assert (found.fates[0, 5:] == Fate.EQUAL).all() and (found.fates[1:, 5:] == Fate.CHANGED).all()


@pytest.mark.parametrize(
    ("variant", "fate"),
    [
        ("MHA", Fate.TURNED),
        ("GQA", Fate.TURNED),
        ("MLA", Fate.TURNED),
        ("GQA, rotated at read", Fate.EQUAL),
        ("MLA, rotated at read", Fate.EQUAL),
        ("MHA, learned", Fate.CHANGED),
    ],
)
@pytest.mark.parametrize("edit", [Edit("delete", 3, 2), Edit("insert", 3, tokens=(6, 6))], ids=["delete", "insert"])
def test_what_a_shift_leaves_of_layer_0_depends_on_where_positions_enter(variant: str, fate: Fate, edit: Edit) -> None:
    found = explained(edit, variant)
    behind = found.n_kept + len(edit.tokens)
    assert (found.fates[0, behind:] == fate).all()
    assert (found.fates[1:, behind:] == Fate.CHANGED).all()


def test_reordering_blocks_changes_everything_behind_the_first() -> None:
    found = explained(Edit("move", 2, 3, 5))
    assert found.n_kept == 2 and (found.fates[1:, 2:] == Fate.CHANGED).all()


def test_keeping_stale_rows_is_wrong_by_more_than_rounding() -> None:
    for edit in (
        Edit("replace", 4, tokens=(2,)),
        Edit("delete", 3, 2),
        Edit("insert", 3, tokens=(6,)),
        Edit("move", 2, 3, 5),
    ):
        assert explained(edit).stale_error > 1e-3


def test_layer_0_of_a_replacement_may_be_kept_so_one_layer_is_never_stale() -> None:
    shape = Shape(n_layers=1)
    found = explain_edit(Model(seeded(shape)), TOKENS, Edit("replace", 4, tokens=(2,)))
    assert found.stale_error < 1e-12


def test_the_work_of_an_edit_is_what_the_formulas_say() -> None:
    found, shape = explained(Edit("delete", 3, 2), "GQA"), MODELS["GQA"].shape
    assert found.work.vectors == stored_vectors(shape, 7) and found.work.flops == forward(shape, 7, 3).flops


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (Edit("delete", 0, 12), "leaves nothing"),
        (Edit("delete", 5, 9), "delete of 9 tokens at 5 does not fit into 12"),
        (Edit("move", 0, 3, 10), "move of 3 tokens"),
        (Edit("replace", 11, tokens=(1, 2)), "replace of 2 tokens at 11"),
    ],
)
def test_an_edit_that_does_not_fit(edit: Edit, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        explain_edit(MODELS["MHA"], TOKENS, edit)
