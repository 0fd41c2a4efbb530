"""Every lowering of a mask on the grammar engines that self-hosted servers decode with.

Skipped where they are not installed.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from contextkit.providers.call_formats import FORMATS, name_regex, prefill, structural_tag, words_only
from contextkit.tools.token_mask import TokenMask
from tests.conformance.grammars import ALLOWED, CALL_TOKENS, END, ENGINES, TOOLS, Engine, wrong

VOCABULARY = [*(bytes([byte]) if byte < 128 else None for byte in range(256)), None, *CALL_TOKENS]
"""Of ASCII: of a token that ends within a letter the mask knows nothing, a grammar does."""


def built(name: str) -> Engine:
    pytest.importorskip(name, reason=f"{name} is not installed (pip install {name}): the grammars are not run on it")
    try:
        return ENGINES[name]()
    except ImportError as missing:
        pytest.skip(f"{name} is installed without what it needs: {missing}")


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        ("xgrammar", "tag"),
        ("xgrammar", "regex"),
        ("xgrammar", "ebnf"),
        ("llguidance", "regex"),
        ("llguidance", "ebnf"),
        ("outlines_core", "regex"),
    ],
)
def test_calls_allowed_are_taken_and_all_others_refused(engine: str, kind: str) -> None:
    compiled = built(engine).makers[kind]
    assert [found for form in FORMATS.values() for found in wrong(form, kind, compiled, n=8)] == []


def test_the_tags_are_what_xgrammars_own_types_say() -> None:
    made = pytest.importorskip("xgrammar", reason="xgrammar is not installed (pip install xgrammar)")
    for form in FORMATS.values():
        for tag in (structural_tag(form, [TOOLS[name] for name in ALLOWED], require=True), words_only(form)):
            read = made.StructuralTag.model_validate(tag).model_dump(exclude_unset=True)
            assert read == tag  # nothing is unknown, nothing was read otherwise


@pytest.mark.parametrize("names", [["browser_open", "browser_close"], ["report"], ["notes", "shell"]])
def test_what_a_grammar_would_force_is_what_is_prefilled(names: list[str]) -> None:
    built("xgrammar")
    xgr: Any = pytest.importorskip("xgrammar")
    info = xgr.TokenizerInfo(
        [bytes([byte]) for byte in range(128)] + [b"</s>"], xgr.VocabType.RAW, stop_token_ids=[128]
    )
    for form in FORMATS.values():
        grammar = xgr.GrammarCompiler(info, max_threads=1).compile_regex(name_regex(form, names))
        forced = xgr.GrammarMatcher(grammar).find_jump_forward_string()
        assert forced == prefill(form, names) + (form.middle if len(names) == 1 else "")


@pytest.mark.parametrize("seed", range(3))
def test_the_token_mask_allows_what_the_grammar_allows(seed: int) -> None:
    """Step for step: ids of `TokenMask` against XGrammar's bitmask for the same names, on tokens that straddle them."""
    built("xgrammar")
    xgr: Any = pytest.importorskip("xgrammar")
    draw = random.Random(seed)
    names = draw.sample([*TOOLS, "b", "a-b"], 4)
    extra = [bytes(draw.choices(b'browse_pnt"a-,x', k=draw.randrange(2, 6))) for _ in range(200)]
    tokens = [*VOCABULARY, *extra]
    mask = TokenMask(tokens, names, after='"')
    info = xgr.TokenizerInfo([token or b"\xff" for token in tokens], xgr.VocabType.RAW, stop_token_ids=[END])
    grammar = xgr.GrammarCompiler(info, max_threads=1).compile_regex(f'({"|".join(names)})"[\\x00-\\x7f]*')
    for _ in range(30):
        said, matcher = list[int](), xgr.GrammarMatcher(grammar)
        while not mask.is_done(said):
            allowed = set(mask.allowed_token_ids(said))
            assert allowed == _open(xgr, matcher, len(tokens))
            said.append(draw.choice(sorted(allowed)))
            assert matcher.accept_token(said[-1])


def _open(xgr: Any, matcher: Any, size: int) -> set[int]:
    bits = xgr.allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(bits)
    words = bits[0].tolist()
    return {index for index in range(size) if words[index // 32] >> index % 32 & 1}
