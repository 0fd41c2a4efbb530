"""Several rankings as one, and a choice from it that does not say the same thing twice.

Takes lists of ids and sets of terms; knows nothing of where they come from.

`fused` is reciprocal rank fusion (Cormack, Clarke & Büttcher 2009, doi 10.1145/1571941.1572114); `diverse` is maximal
marginal relevance (Carbonell & Goldstein 1998, doi 10.1145/290941.291025) with the cosine between sets of terms as
similarity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

RANK_OFFSET = 60
"""The k of reciprocal rank fusion: with it the paper's authors found no other setting worth the search."""
RELEVANCE = 0.7
"""What relevance weighs against being unlike what is chosen already."""


def fused(lists: Sequence[Sequence[str]]) -> list[tuple[str, float]]:
    """Every id of the lists with its score, best first: 1 is first place in all.

    Ties: the better place in an earlier list, then id.

    >>> [id for id, _ in fused([["a", "b", "c"], ["c", "d"]])]
    ['c', 'a', 'b', 'd']
    """
    most = len(lists) / (RANK_OFFSET + 1)
    scores: dict[str, float] = {}
    places: dict[str, list[float]] = {}
    for index, ranked in enumerate(lists):
        for place, name in enumerate(ranked, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (RANK_OFFSET + place) / most
            places.setdefault(name, [math.inf] * len(lists))[index] = place
    return sorted(scores.items(), key=lambda pair: (-pair[1], places[pair[0]], pair[0]))


def diverse(
    ranked: Sequence[tuple[str, float]], terms: Mapping[str, AbstractSet[str]], limit: int
) -> list[tuple[str, float]]:
    """`limit` of `ranked`, each the most relevant that says least again; ties go to the one ranked higher.

    >>> diverse([("a", 1.0), ("copy", 0.9), ("b", 0.8)], {"a": {"x", "y"}, "copy": {"x", "y"}, "b": {"z"}}, 2)
    [('a', 1.0), ('b', 0.8)]
    """
    highest = ranked[0][1] if ranked else 1.0
    left = dict.fromkeys(range(len(ranked)), 0.0)
    chosen: list[tuple[str, float]] = []
    while left and len(chosen) < limit:
        best = max(
            left, key=lambda index: (RELEVANCE * ranked[index][1] / highest - (1 - RELEVANCE) * left[index], -index)
        )
        del left[best]
        chosen.append(ranked[best])
        said = terms[ranked[best][0]]
        for index, nearest in left.items():
            left[index] = max(nearest, similarity(said, terms[ranked[index][0]]))
    return chosen


def similarity(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Cosine between two sets: 0 with nothing in common, 1 when they are equal."""
    return len(one & other) / math.sqrt(len(one) * len(other)) if one and other else 0.0
