"""Out of the rut: how often an agent's steps repeat one another, and new results told in another form, chosen once and frozen.

A model that sees twenty near-equal steps makes a twenty-first. Takes entries of a log; gives a rate, and the body of a result with its
text in one of a few forms, each of which can be undone exactly. What was written never changes: only what is about to be.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import UsageError
from contextkit.log.entry import Entry

GRAM = 3
"""Words in a gram."""
_MOST_WORDS = 2_000
"""Words of a step that are compared; what is beyond them does not make two steps look different."""
_WORD = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Repetition:
    """How much a conversation repeats itself."""

    n_steps: int
    """Answered calls."""
    n_repeated: int
    """Those whose action and observation look like one of the steps just before."""

    @property
    def rate(self) -> float:
        """Share of the steps; 0 without any."""
        return self.n_repeated / self.n_steps if self.n_steps else 0.0


@dataclass(frozen=True, slots=True)
class Variation:
    """When and how results are told in another form. Off unless a conversation is given one.

    >>> Variation(seed=7).form("toolu_1") == Variation(seed=7).form("toolu_1")
    True
    """

    seed: int
    """What the choices follow from, together with the id of the call: the same seed, the same bytes."""
    window: int = 6
    """Steps that a new one is compared with."""
    similarity: float = 0.6
    """Share of common grams (Jaccard) from which on two steps look alike."""
    is_always: bool = False
    """Vary every result, and not only in a rut."""

    def __post_init__(self) -> None:
        if self.window < 1 or not 0 < self.similarity <= 1:
            raise UsageError(f"window={self.window}, similarity={self.similarity}: at least one step, and a share above 0 and up to 1")

    def form(self, call_id: str) -> str:
        """The form of the answer to a call."""
        names = list(FORMS)
        chance = blake2b(f"{self.seed} {call_id}".encode(), digest_size=8).digest()
        return names[int.from_bytes(chance, "big") % len(names)]


@dataclass(slots=True)
class Steps:
    """The last steps of one conversation; fed every entry of its log, in order."""

    window: int = 6
    """How many are remembered."""
    similarity: float = 0.6
    """From which on two look alike."""
    n: int = 0
    """Steps so far."""
    n_repeated: int = 0
    """Those that looked like one of the remembered."""
    is_in_rut: bool = False
    """Whether the last one did."""
    _recent: deque[frozenset[int]] = field(default_factory=deque)
    _calls: dict[str, str] = field(default_factory=dict)

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        if entry.kind == "assistant":
            self._calls = {call["id"]: _spoken(call) for call in parse(entry.body)["calls"]}
        elif entry.kind == "result":
            body = parse(entry.body)
            self.step(self._calls.get(body["call_id"], body["name"]), _text(body["content"]))

    def step(self, action: str, observation: str) -> None:
        """Take one action and what came of it, as text."""
        grams = grams_of(f"{action}\n{observation}")
        self.is_in_rut = any(likeness(grams, other) >= self.similarity for other in self._recent)
        self.n += 1
        self.n_repeated += self.is_in_rut
        self._recent.append(grams)
        if len(self._recent) > self.window:
            self._recent.popleft()

    @property
    def repetition(self) -> Repetition:
        """What was counted so far."""
        return Repetition(self.n, self.n_repeated)


def repetition(log: Iterable[Entry], window: int = 6, similarity: float = 0.6) -> Repetition:
    """How much the steps of a conversation repeat those just before them."""
    steps = Steps(window, similarity)
    for entry in log:
        steps.feed(entry)
    return steps.repetition


def grams_of(text: str) -> frozenset[int]:
    """The shape of a step: runs of three words, numbers aside.

    >>> len(grams_of("read page 3 of 9") & grams_of("read page 4 of 9")) == len(grams_of("read page 3 of 9"))
    True
    """
    words = [_NUMBER.sub("0", word.lower()) for word, _ in zip(_words(text), range(_MOST_WORDS), strict=False)]
    grams = zip(*(words[shift:] for shift in range(GRAM)), strict=False)
    return frozenset(map(_hashed, grams)) if len(words) >= GRAM else frozenset({_hashed(words)})


def likeness(one: frozenset[int], other: frozenset[int]) -> float:
    """Jaccard similarity of two shapes: 1 where they are the same, 0 where they share nothing."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)


def varied(body: Mapping[str, Json], form: str) -> Json:
    """Body of a result with its texts told in `form`, which it names; errors and what is not text stay as they are."""
    if body["is_error"] or form == "plain" or all(part["type"] != "text" for part in body["content"]):
        return body
    wrap = FORMS[form][0]
    told = [{**part, "text": wrap(body["name"], part["text"])} if part["type"] == "text" else part for part in body["content"]]
    return {**body, "content": told, "form": form}


def unvaried(body: Mapping[str, Json]) -> list[Json]:
    """The parts of a result as they were before `varied`, exactly.

    >>> result = {"name": "look", "is_error": False, "content": [{"type": "text", "text": chr(10).join(["a", "", "b"])}]}
    >>> all(unvaried(varied(result, form)) == result["content"] for form in FORMS)
    True
    """
    undo = FORMS[body.get("form", "plain")][1]
    return [{**part, "text": undo(body["name"], part["text"])} if part["type"] == "text" else part for part in body["content"]]


def _between(before: Callable[[str], str], after: Callable[[str], str]) -> tuple[Callable[[str, str], str], Callable[[str, str], str]]:
    """A form that puts something around the text."""
    return (
        lambda name, text: f"{before(name)}{text}{after(name)}",
        lambda name, text: text[len(before(name)) : len(text) - len(after(name))],
    )


FORMS: dict[str, tuple[Callable[[str, str], str], Callable[[str, str], str]]] = {
    "plain": (lambda name, text: text, lambda name, text: text),
    "labelled": _between(lambda name: f"Result of {name}:\n", lambda name: ""),
    "tagged": _between(lambda name: f"<{name}>\n", lambda name: f"\n</{name}>"),
    "closed": _between(lambda name: "", lambda name: f"\n(That is all {name} returned.)"),
    "quoted": (
        lambda name, text: "\n".join(f"> {line}" for line in text.split("\n")),
        lambda name, text: "\n".join(line[2:] for line in text.split("\n")),
    ),
    "listed": (
        lambda name, text: "\n".join(f"{number:>4} | {line}" for number, line in enumerate(text.split("\n"), 1)),
        lambda name, text: "\n".join(line.split(" | ", 1)[1] for line in text.split("\n")),
    ),
}
"""Form → (how a tool's text is told in it, how the text is got back)."""


def _words(text: str) -> Iterator[str]:
    return (found.group() for found in _WORD.finditer(text))


def _hashed(words: Iterable[str]) -> int:
    """The same in every process: Python's own hash of text is not."""
    return int.from_bytes(blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _spoken(call: Mapping[str, Json]) -> str:
    return f"{call['name']} {canonical(call['arguments']).decode()}"


def _text(parts: Iterable[Json]) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")
