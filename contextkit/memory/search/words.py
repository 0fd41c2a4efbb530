"""Text as the terms it is found by.

Takes any text, gives terms: lower case, without accents, plurals as singulars, names of code cut at their humps and
underscores. Knows nothing of the index, which keeps exactly these terms; so no query can be a fault of grammar, and
what is counted is what is searched.

Scripts that put no spaces between words (Han, kana, Hangul, Thai, Lao, Khmer, Burmese, Tibetan) give each character and
each pair of neighbours; a query asks for the pairs, or for the one character it has. SQLite's trigram tokenizer finds
such words too, from three characters on, and costs three times the time and seven times the room on English text
(`tests/benchmarks/memory_search.py --trigram`).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

MAX_TERM = 64
"""Characters kept of a term: a blob in base64 is found by its beginning."""

_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3040-\u30fa\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS = "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0dff"
"""Signs that stand within a word and are no letters to Python: vowel signs of Hebrew, Arabic and the scripts of India.
"""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKS}])+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_ACCENTS = re.compile("[\u0300-\u036f]")


def terms(text: str) -> list[str]:
    """Every term of a text that is indexed, in order.

    >>> terms("readReference() of Cafés, 缓存前")
    ['read', 'reference', 'of', 'cafe', '缓', '缓存', '存', '存前', '前']
    """
    spoken = words(text)
    if text.isascii():
        return [_stem(word) for word in spoken]
    return [
        term
        for word in spoken
        for term in (_characters_and_pairs(word) if _IS_UNSPACED.match(word) else (_stem(word),))
    ]


def query_terms(query: str) -> list[str]:
    """The terms a query asks for, each once, in order.

    Never raises, and gives none for a query without a letter or digit.

    >>> query_terms('"cache" OR NEAR(-缓存前缀)*')
    ['cache', 'or', 'near', '缓存', '存前', '前缀']
    """
    return list(dict.fromkeys(term for group in query_groups(query) for term in group))


def query_groups(query: str) -> list[list[str]]:
    """The terms of a query, those together that it wrote without a space: `memory/search.py` is one group of three."""
    groups = [[term for word in words(chunk) for term in _terms_in(word)] for chunk in query.split()]
    return [group for group in groups if group]


def words(text: str) -> list[str]:
    """The words of a text in one form: case, width, accents and humps gone."""
    apart = _HUMP.sub(" ", text)
    if apart.isascii():
        return _ASCII_WORD.findall(apart.lower())
    plain = unicodedata.normalize("NFKD", apart.encode("utf-8", "ignore").decode())
    return _WORD.findall(unicodedata.normalize("NFKC", _ACCENTS.sub("", plain)).casefold())


def _terms_in(word: str) -> list[str]:
    if not _IS_UNSPACED.match(word):
        return [_stem(word)]
    return [first + second for first, second in pairwise(word)] or [word]


def _characters_and_pairs(word: str) -> list[str]:
    found = [term for first, second in pairwise(word) for term in (first, first + second)]
    return [*found, word[-1]]


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    """The term a word counts as; remembered, for a text repeats its words."""
    return _singular(word)[:MAX_TERM]


def _singular(word: str) -> str:
    """An English plural as its singular, by the S-stemmer of Harman 1991 (How effective is suffixing?).

    Other words as they are.
    """
    if len(word) < 4 or word[-1] != "s" or word[-2] in "us" or not word.isascii():
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    return word if word.endswith(("aes", "ees", "oes")) else word[:-1]
