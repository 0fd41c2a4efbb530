"""What was wrong with recordings, in one line.

Takes how often each fault was met, gives words. The faults themselves are those of the importers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

_AMOUNT = re.compile(r"([\d,]+) ")
KINDS = (
    (r"of no known format", "file of no known format", "files of no known format"),
    (
        r"Interactions API",
        "call of Gemini's Interactions API, a format that is not read",
        "calls of Gemini's Interactions API, a format that is not read",
    ),
    (r"the file is empty", "empty file", "empty files"),
    (
        r"counted once|not counted again",
        "call counted once though it stands twice",
        "calls counted once though they stand twice",
    ),
    (
        r"cut|damaged|unfinished|no JSON|cannot be read|what came before was read|ends inside",
        "damaged line",
        "damaged lines",
    ),
    (
        r"clock|out of order|no time|earlier than|before it start",
        "time that cannot be right",
        "times that cannot be right",
    ),
    (r"prefix caching", "engine without prefix caching", "engines without prefix caching"),
    (r"passed over", "line or file passed over", "lines or files passed over"),
)
"""(words by which a fault is known, what one and what several are called); the first that fits."""
OTHER = "other remark", "other remarks"


def summary_of(counts: Mapping[str, int]) -> str:
    """How many faults there are of each kind; `counts` maps what was said to how often.

    A fault that begins with a number stands for as many.

    >>> summary_of({"no JSON object, or one that was cut; passed over": 3, "1,200 of its calls were read before; counted once": 1})
    '1,200 calls counted once though they stand twice; 3 damaged lines'
    """
    n: Counter[tuple[str, str]] = Counter()
    for what, times in counts.items():
        amount = _AMOUNT.match(what)
        n[_kind_of(what)] += times * (int(amount[1].replace(",", "")) if amount else 1)
    order = [*((one, several) for _, one, several in KINDS), OTHER]
    ranked = sorted(n.items(), key=lambda pair: order.index(pair[0]))
    return "; ".join(f"{number:,} {one if number == 1 else several}" for (one, several), number in ranked)


def _kind_of(what: str) -> tuple[str, str]:
    return next(((one, several) for words, one, several in KINDS if re.search(words, what)), OTHER)
