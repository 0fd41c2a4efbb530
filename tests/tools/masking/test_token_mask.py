"""The token mask against a search that tries every token, and what it costs at the size of a real vocabulary."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from contextkit.errors import UsageError
from contextkit.tools.token_mask import TokenMask, Vocabulary
from tests.scale import n_examples

LETTERS = "ab_"
TEXTS = [bytes(letters) for n in (1, 2, 3) for letters in product(b'ab_"x', repeat=n)]
"""What a random token may say: letters of names, the end of a name, and what stands in none."""

names = st.lists(st.text(LETTERS, min_size=1, max_size=5), min_size=1, max_size=5, unique=True)
vocabularies = st.lists(st.one_of(st.sampled_from(TEXTS), st.none()), max_size=40)
follows: list[Callable[[bytes], bool]] = [lambda rest: True, lambda rest: False, lambda rest: rest.startswith(b"x")]


def is_allowed(said: bytes, text: bytes, may_follow: Callable[[bytes], bool]) -> bool:
    """Whether `said` is `text`, or goes past its end with what may follow."""
    return said == text or (said.startswith(text) and may_follow(said[len(text) :]))


def search(
    tokens: Sequence[bytes | None], texts: Sequence[bytes], may_follow: Callable[[bytes], bool]
) -> Callable[[bytes], list[int]]:
    """By trying every token everywhere: what may come after the bytes said so far."""

    @cache
    def leads(said: bytes) -> bool:
        if any(is_allowed(said, text, may_follow) for text in texts):
            return True
        return any(text.startswith(said) for text in texts) and any(leads(said + token) for token in tokens if token)

    return lambda said: [index for index, token in enumerate(tokens) if token and leads(said + token)]


def reachable(mask: TokenMask, tokens: Sequence[bytes | None]) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """One way to each place the mask lets a model come to before the name is said, and the bytes said there."""
    pending: list[tuple[tuple[int, ...], bytes]] = [((), b"")]
    seen = {b""}
    for ids, said in pending:
        yield ids, said
        for index in mask.allowed_token_ids(ids):
            following = said + (tokens[index] or b"")
            if not mask.is_done((*ids, index)) and following not in seen:
                seen.add(following)
                pending.append(((*ids, index), following))


@settings(settings.get_profile("laws"), max_examples=n_examples(60, 2_000))
@given(tokens=vocabularies, names=names, may_follow=st.sampled_from(follows))
def test_the_mask_is_exact_on_random_vocabularies(
    tokens: list[bytes | None], names: list[str], may_follow: Callable[[bytes], bool]
) -> None:
    texts = [name.encode() + b'"' for name in names]
    allowed = search(tokens, texts, may_follow)
    try:
        mask = TokenMask(tokens, names, may_follow=may_follow)
    except UsageError:
        assert any(not search(tokens, [text], may_follow)(b"") for text in texts)
        return
    assert all(search(tokens, [text], may_follow)(b"") for text in texts)
    for ids, said in reachable(mask, tokens):
        assert sorted(mask.allowed_token_ids(ids)) == allowed(said)


@settings(settings.get_profile("laws"), max_examples=n_examples(30, 1_000))
@given(tokens=vocabularies, names=names, seed=st.integers(0, 2**32))
def test_sampling_under_the_mask_yields_allowed_names_only_and_can_yield_each(
    tokens: list[bytes | None], names: list[str], seed: int
) -> None:
    tokens = [*tokens, *(letter.encode() for letter in LETTERS + '"')]
    mask, dice, said = TokenMask(tokens, names), random.Random(seed), set()
    for _ in range(200):
        ids: list[int] = []
        while not mask.is_done(ids):
            ids.append(dice.choice(mask.allowed_token_ids(ids)))
        said.add(b"".join(tokens[index] or b"" for index in ids).partition(b'"')[0].decode())
    assert said <= set(names)
    for name in names:  # every way to cut it into tokens, of which at least the one letter by letter is there
        assert any(
            b"".join(tokens[index] or b"" for index in ids) == name.encode() + b'"' for ids in cuts(mask, tokens, name)
        )


def cuts(mask: TokenMask, tokens: Sequence[bytes | None], name: str) -> Iterator[list[int]]:
    """A cut of a name and its end into tokens that the mask lets pass, token by token."""
    text, ids = name.encode() + b'"', list[int]()
    while text:
        index = next(index for index, token in enumerate(tokens) if token == text[:1])
        assert index in mask.allowed_token_ids(ids)
        ids.append(index)
        text = text[1:]
    yield ids


@settings(settings.get_profile("laws"), max_examples=n_examples(30, 1_000))
@given(tokens=vocabularies, names=names, prefix=st.lists(st.integers(0, 60), max_size=4))
def test_what_was_said_outside_the_mask_is_refused(
    tokens: list[bytes | None], names: list[str], prefix: list[int]
) -> None:
    tokens = [*tokens, *(letter.encode() for letter in LETTERS + '"')]
    mask = TokenMask(tokens, names)
    n_obeyed = 0
    while n_obeyed < len(prefix) and prefix[n_obeyed] in mask.allowed_token_ids(prefix[:n_obeyed]):
        n_obeyed += 1
    assume(n_obeyed < len(prefix) and not mask.is_done(prefix[:n_obeyed]))
    with pytest.raises(UsageError, match=f"token {prefix[n_obeyed]} at place {n_obeyed} leads to no allowed name"):
        mask.allowed_token_ids(prefix)


def test_the_opening_of_a_call_can_be_forced_with_the_name() -> None:
    tokens = [b"<tool_call>", b'{"', b"name", b'": "', b"a", b"b", b'"', b'{"name": "a']
    mask = TokenMask(tokens, ["a", "b"], before='<tool_call>{"name": "')
    assert mask.allowed_token_ids([]) == (0,)
    assert sorted(mask.allowed_token_ids([0])) == [1, 7]
    assert sorted(mask.allowed_token_ids([0, 1, 2, 3])) == [4, 5]
    assert mask.allowed_token_ids([0, 7]) == (3, 6)


def test_behind_the_name_everything_may_be_said_special_tokens_too() -> None:
    mask = TokenMask([b"a", b'"', None], ["a"])
    assert list(mask.allowed_token_ids([0, 1])) == [0, 1, 2] == list(mask.allowed_token_ids([0, 1, 2, 0]))


def test_one_vocabulary_serves_a_mask_for_each_phase() -> None:
    vocabulary = Vocabulary([b"browser_", b"shell_", b"open", b"run", b'"'])
    browsing, working = TokenMask(vocabulary, ["browser_open"]), TokenMask(vocabulary, ["shell_run", "browser_run"])
    assert (browsing.allowed_token_ids([]), sorted(working.allowed_token_ids([]))) == ((0,), [0, 1])


@pytest.mark.parametrize(
    ("tokens", "names", "after", "text"),
    [
        ([b"a"], [], '"', "no names to allow"),
        ([b"a", b"b"], ["a", "ab"], "", "'a' is the beginning of 'ab': give what stands after the name"),
        ([b"a", b'"'], ["a", "ab"], '"', "'ab\"' cannot be spelled with this vocabulary"),
        (["a"], ["a"], '"', "token 0 of the vocabulary is str, not bytes"),
    ],
)
def test_an_error_says_what_is_wrong(tokens: list[bytes], names: list[str], after: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        TokenMask(tokens, names, after)
    assert str(caught.value).startswith(text)


# At size
# --------------------------------------------------------------------------------------------------------------------


def tool_names(n: int) -> list[str]:
    """Names as agents have them: families of verbs."""
    families = [f"{place}{n}" for n in range(10) for place in ("browser", "github", "notes", "shell", "files")]
    verbs = ["open", "close", "read", "write", "list", "search", "create", "delete", "update", "merge"]
    whole = [f"{family}_{verb}_{thing}" for family in families for verb in verbs for thing in ("page", "issue")]
    return whole[:n]


def tokens_like_a_real_vocabulary(n: int) -> list[bytes]:
    dice = random.Random(7)
    letters = "eeetttaaoinshrdlcum_ -\"',:{}[]ETA0123é"
    found = {bytes([byte]): None for byte in range(256)}
    while len(found) < n:
        found["".join(dice.choices(letters, k=dice.randint(2, 12))).encode()] = None
    return list(found)


@pytest.mark.timed
def test_a_thousand_tools_and_two_hundred_thousand_tokens() -> None:
    tokens, names, dice = tokens_like_a_real_vocabulary(200_000), tool_names(1000), random.Random(1)
    assert (len(tokens), len(names)) == (200_000, 1000)
    started = time.thread_time()
    mask = TokenMask(tokens, names)
    assert time.thread_time() - started < 2
    tries = [sorted(steps_of(mask, dice)) for _ in range(3)]  # what else the machine does only adds to one of them
    assert min(sum(steps) / len(steps) for steps in tries) < 50e-6
    assert min(steps[len(steps) * 99 // 100] for steps in tries) < 50e-6


def steps_of(mask: TokenMask, dice: random.Random) -> list[float]:
    """Seconds of each step of 500 names spelled at random."""
    steps: list[float] = []
    for _ in range(500):
        ids: list[int] = []
        while not mask.is_done(ids):
            began = time.thread_time()
            allowed = mask.allowed_token_ids(ids)
            steps.append(time.thread_time() - began)
            ids.append(dice.choice(allowed))
    return steps


def test_the_tokens_of_a_real_tokeniser_spell_every_name_in_its_own_cut() -> None:
    bpe = pytest.importorskip("bpe_openai", reason="the extra offline-tokens is not installed")
    tokeniser, names = bpe.get_encoding("o200k_base"), tool_names(300)
    tokens = tokeniser.token_byte_values()
    mask = TokenMask(tokens, names)
    assert len(tokens) > 199_000
    for name in names:
        ids = tokeniser.encode_ordinary(f'{name}", "arguments": {{')
        assert all(index in mask.allowed_token_ids(ids[:place]) for place, index in enumerate(ids))
        assert mask.is_done(ids)
