"""Seeded text that looks like pages, logs and source: every line starts with a key and a number, `p017.042`.

The line numbers let the benchmark count which part of a result a request shows, and let a scripted model ask for the
lines it misses.
"""

from __future__ import annotations

import random
import re

LINE = re.compile(r"\b([a-z]\d{3})\.(\d{3})\b")
BYTES_PER_TOKEN = 2.48
"""Of these pages, as the local provider counts them for claude-sonnet-5-5: full of figures and line numbers."""
_LINE_BYTES = 150
_VOCABULARY = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one "
    "were all their there been many some so can these may other its new time only under into more no first than two would "
    "market price supply chip memory bandwidth latency cluster tenant region contract renewal quarter forecast demand "
    "capacity vendor shipment yield wafer package substrate cooling power grid rack network switch fabric optical cable "
    "scheduler queue batch token prompt cache prefix lookup eviction lifetime request response session agent tool result "
    "customer account invoice refund policy clause exception escalation audit review approval budget margin discount "
    "inventory warehouse carrier customs tariff lead delay backlog order estimate report survey sample figure table "
    "average median percent increase decrease stable rising falling compared earlier later during between across while "
    "however therefore although because according measured observed reported expected assumed likely unlikely roughly"
)
_WORDS = _VOCABULARY.split()
_TITLES = ("Supply of {0} by {1}", "{1}: a review of {0}", "A survey of {0} at {1}", "{1} report on {0}")
_SYLLABLES = (
    "bal",
    "cor",
    "dun",
    "fel",
    "gar",
    "hos",
    "jin",
    "kel",
    "lam",
    "mor",
    "nev",
    "ost",
    "pra",
    "quil",
    "ros",
    "tar",
    "ulm",
)


def page(key: str, n_tokens: int, *, seed: int = 0, code: str = "") -> str:
    """A page of about `n_tokens` tokens; `code` is told once, in the middle.

    >>> page("p001", 100).splitlines()[0].startswith("p001.001 # ")
    True
    """
    rng = random.Random(f"{seed}/{key}")
    n_lines = max(2, round(n_tokens * BYTES_PER_TOKEN / _LINE_BYTES))
    lines = [f"{key}.001 # {title(key, seed)}"]
    fact_line = n_lines // 2
    for number in range(2, n_lines + 1):
        if code and number == fact_line:
            lines.append(f"{key}.{number:03d} The access code of {title(key, seed)} is {code}.")
            continue
        words = " ".join(rng.choices(_WORDS, k=30))[: _LINE_BYTES - 20]
        heading = "## " if number % 25 == 0 else ""
        figure = f" {rng.randint(10, 99_999):,}"
        lines.append(f"{key}.{number:03d} {heading}{words.capitalize()}{figure}.")
    return "\n".join(lines)


def title(key: str, seed: int = 0) -> str:
    """Title of the page `key`: a common word, and a name that no other page has."""
    rng = random.Random(f"title/{seed}/{key}")
    name = " ".join("".join(rng.choices(_SYLLABLES, k=3)).capitalize() for _ in range(2))
    return rng.choice(_TITLES).format(rng.choice(_WORDS[70:]), name)


def access_code(key: str) -> str:
    """What is planted on a page and asked for later: found by no other words."""
    rng = random.Random(f"code/{key}")
    return f"{rng.randint(10_000, 99_999)}-{''.join(rng.choices('ABCDEFGHJKLMNPQRSTUVWXYZ', k=4))}"


def instructions(topic: str, n_tokens: int) -> str:
    """A system prompt of about `n_tokens` tokens."""
    rng = random.Random(f"system/{topic}")
    lines = [f"You are a careful {topic} agent. Follow these rules."]
    while sum(map(len, lines)) < n_tokens * BYTES_PER_TOKEN:
        lines.append(f"- {' '.join(rng.choices(_WORDS, k=22)).capitalize()}.")
    return "\n".join(lines)
