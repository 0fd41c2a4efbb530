"""The token mask of `tools/token_mask.py` on real logits: tokens that straddle names, every sampled call allowed, the
prompt's rows untouched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contextkit import Phase, Phases, Toolbox
from contextkit.errors import UsageError
from contextkit.providers.call_formats import FORMATS, prefill
from contextkit.tools.mask import Mask, Mode, Permit
from contextkit.tools.token_mask import TokenMask, Vocabulary
from contextkit.transformer.engine import Engine, Run
from contextkit.transformer.kv_cache import PagedCache, Pool
from contextkit.transformer.masking import Allowed, Choose, generate_masked, held, likeliest, masked, sampled
from contextkit.transformer.model import Bytes, Model
from contextkit.transformer.weights import Shape, seeded
from tests.scale import cases
from tests.transformer import oracle

PIECES = [
    b"<tool_call>",
    b'\n{"name',
    b'": "',
    b"browser",
    b"browser_",
    b"_op",
    b"open",
    b'en"',
    b'", "arg',
    b"_close",
    b"cl",
    b'ose", ',
    b"sea",
    b"rch",
]
FAMILY = ["browser_open", "browser_close"]
ALL = [*FAMILY, "search"]
FORM = FORMATS["hermes"]
HEAD, OPEN = FORM.begin, FORM.trigger
BOX = Toolbox([{"name": name} for name in ALL])
PHASES = Phases(
    {
        "auto": Phase(["browser_*"]),
        "required": Phase(require=True, by_hand=True),
        "specified": Phase(["browser_*"], require=True, by_hand=True),
        "none": Phase([], by_hand=True),
    },
    start="auto",
)


class Pieces:
    """Bytes, and tokens longer than one, some of which end within a name or reach past its end."""

    tokens = (*(bytes([byte]) for byte in range(256)), *PIECES)
    size = len(tokens)

    def encode(self, text: str) -> list[int]:
        rest, ids = text.encode(), list[int]()
        while rest:
            ids.append(
                max(
                    (i for i, token in enumerate(self.tokens) if rest.startswith(token)),
                    key=lambda i: len(self.tokens[i]),
                )
            )
            rest = rest[len(self.tokens[ids[-1]]) :]
        return ids

    def decode(self, tokens: list[int]) -> str:  # type: ignore[override]
        return b"".join(self.tokens[token] for token in tokens).decode("latin-1")


TOKENS = Pieces()
VOCABULARY = Vocabulary(TOKENS.tokens)
MODEL = Model(seeded(replace(Shape(n_kv_heads=2), vocabulary=TOKENS.size)))
PROMPT = TOKENS.encode("tools: browser_open browser_close search shell\nuser: buy me a GPU\n")


def of(mode: Mode, names: list[str] | None = None) -> Mask:
    """The mask of a conversation's phase, as a `Context` has it."""
    mask = Permit(PHASES, BOX).mask(mode)
    assert mask.mode == mode
    return mask if names is None else replace(mask, allowed=tuple(names))


def said(names: list[str], mode: Mode, seed: int, begin: str | None = None, n: int = 30) -> str:
    engine = Engine(MODEL)
    run = engine.open()
    engine.feed([(run, PROMPT)])
    begun = TOKENS.encode(started(of(mode, names)) if begin is None else begin)
    return TOKENS.decode(
        generate_masked(
            engine, run, n, held(of(mode, names), FORM, VOCABULARY, TOKENS), begun, sampled(seed, temperature=4)
        )
    )


def started(mask: Mask) -> str:
    return prefill(FORM, mask.allowed) if mask.mode in ("required", "specified") else ""


@pytest.mark.parametrize("seed", cases(range(2), range(10)))
@pytest.mark.parametrize(
    ("names", "mode", "begin"),
    [
        (ALL, "required", None),
        (FAMILY, "specified", None),
        (["search"], "specified", None),
        (ALL, "required", ""),
        (ALL, "auto", f"Well. {OPEN}"),
        (FAMILY, "auto", f'{HEAD}browser_open", 1}} Well. {OPEN}'),
    ],
)
def test_every_sampled_call_is_an_allowed_one(names: list[str], mode: Mode, begin: str | None, seed: int) -> None:
    text = said(names, mode, seed, begin)
    calls = [OPEN + rest for rest in text.split(OPEN)[1:]]
    assert calls and all(any(_is_call(call, name) for name in names) for call in calls)


def _is_call(text: str, name: str) -> bool:
    """Whether a text is a call of `name`, or the end of what was sampled cut it before its name was said."""
    head = f'{HEAD}{name}"'
    return text.startswith(head) or head.startswith(text)


def test_each_allowed_name_is_said_in_more_than_one_way() -> None:
    texts = [said(FAMILY, "specified", seed, n=8) for seed in range(12)]
    assert {name for name in FAMILY for text in texts if _is_call(text, name)} == set(FAMILY)
    mask = TokenMask(VOCABULARY, FAMILY, before=HEAD)
    begun = TOKENS.encode(prefill(FORM, FAMILY))
    spelled = {TOKENS.tokens[token] for token in mask.allowed_token_ids(begun)}
    assert spelled == {b"o", b"open", b"c", b"cl"}


def test_a_mask_that_allows_no_token_is_refused() -> None:
    engine = Engine(MODEL)
    run = engine.open()
    engine.feed([(run, PROMPT)])
    with pytest.raises(UsageError, match="the mask allows no token at all: allow at least one"):
        generate_masked(engine, run, 1, lambda made: [])


def test_what_the_mask_leaves_keeps_its_odds() -> None:
    logits = np.array([2.0, 7.0, 1.0, -3.0])
    left = masked(logits, [0, 2, 3])
    odds = np.exp(left) / np.exp(left).sum()
    assert odds[1] == 0 and odds[0] / odds[2] == pytest.approx(np.e) and odds[2] / odds[3] == pytest.approx(np.e**4)
    assert logits[1] == 7  # the model's own logits stay


def test_where_no_call_is_allowed_the_opening_is_no_token() -> None:
    mask = held(of("none"), FORM, VOCABULARY, TOKENS)
    assert set(range(TOKENS.size)) - set(mask(TOKENS.encode("Well."))) == {TOKENS.encode(OPEN)[0]}
    assert OPEN not in said([], "none", 3)


@pytest.mark.parametrize("mode", ["auto", "required", "specified", "none"])
def test_the_rows_of_the_prompt_are_the_same_blocks_with_and_without_a_mask(mode: Mode) -> None:
    pool = Pool(MODEL.shape, n_blocks=40, block=8)
    engine = Engine(MODEL, lambda: PagedCache(pool))
    first = engine.open()
    engine.feed([(first, PROMPT)])
    masked, plain = Run(first.cache.fork(), list(PROMPT)), Run(first.cache.fork(), list(PROMPT))  # type: ignore[attr-defined]
    n_full = len(PROMPT) // pool.block - 1  # the last row is read anew for its logits, so its block is one's own
    before = [array[:, first.cache.table[:n_full]].copy() for array, _ in pool.parts]  # type: ignore[attr-defined]
    mask = held(of(mode), FORM, VOCABULARY, TOKENS)
    generate_masked(engine, masked, 20, mask, TOKENS.encode(started(of(mode))), sampled(1))
    generate_masked(engine, plain, 20, lambda made: range(TOKENS.size), (), sampled(1))
    tables = [run.cache.table[:n_full] for run in (first, masked, plain)]  # type: ignore[attr-defined]
    assert tables[0] == tables[1] == tables[2] and all(pool.holders[block] == 3 for block in tables[0])
    assert all((was == array[:, tables[0]]).all() for was, (array, _) in zip(before, pool.parts, strict=True))
    assert np.isfinite(before[0]).all()


def without_cache(n: int, allowed: Allowed, seed: int) -> list[int]:
    """Token by token, everything computed anew for each, forced or not: a mask and nothing saved."""
    made, choose = list[int](), sampled(seed, temperature=4)
    for _ in range(n):
        logits, _ = oracle.run(MODEL.weights, [*PROMPT, *made])
        ids = allowed(made)
        made.append(choose(masked(logits[-1], ids)) if len(ids) > 1 else likeliest(masked(logits[-1], ids)))
    return made


@pytest.mark.parametrize("mode", ["auto", "required", "specified", "none"])
def test_decoding_under_a_mask_says_what_it_says_without_a_cache(mode: Mode) -> None:
    allowed = held(of(mode), FORM, VOCABULARY, TOKENS)
    engine = Engine(MODEL)
    run = engine.open()
    engine.feed([(run, PROMPT)])
    made = generate_masked(engine, run, 12, allowed, (), sampled(2, temperature=4))
    assert made == without_cache(12, allowed, 2) and all(token in allowed(made[:i]) for i, token in enumerate(made))


def replaying(tokens: list[int]) -> Choose:
    rest = iter(tokens)
    return lambda logits: next(rest)


def test_a_mask_reads_as_many_cached_rows_as_none_and_a_forced_token_costs_no_pass() -> None:
    bytewise, works, made = Bytes(), [], list[int]()
    model = Model(seeded(Shape(n_kv_heads=2)))
    prompt = bytewise.encode("tools: search\nuser: find a GPU\n")
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), None])
    call = bytewise.encode(FORM.begin + "search" + FORM.middle)
    mask = held(replace(of("specified"), allowed=("search",)), FORM, vocabulary, bytewise)
    for allowed in (mask, lambda made: range(257)):
        engine = Engine(model)
        run = engine.open()
        engine.feed([(run, prompt)])
        rows = [part.copy() for part in run.cache.read(1, len(prompt) - 1)]
        before = engine.work.copy()
        made = generate_masked(engine, run, len(call) + 5, allowed) if allowed is mask else made
        if allowed is not mask:  # the same text, sampled freely: nothing is forced, each token has a pass
            generate_masked(engine, run, len(call) + 5, allowed, (), replaying(made))
        works.append(engine.work.since(before))
        assert all(
            (was == now[:, : len(prompt) - 1]).all()
            for was, now in zip(rows, run.cache.read(1, len(prompt) - 1), strict=True)
        )
        assert run.tokens == [*prompt, *made[:-1]] and run.cache.n_rows == len(run.tokens)
    assert made[: len(call)] == call and len(call) == 44
    assert (works[0].passes, works[1].passes) == (5, len(call) + 5)
    assert works[0].positions == works[1].positions - 1  # without a mask the last row of the prompt is read once more
