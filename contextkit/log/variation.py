"""Out of the rut: how often an agent's steps repeat one another, and new results told in another form, chosen once and
frozen.

A model that sees twenty near-equal steps makes a twenty-first. Takes entries of a log; gives a rate, and the body of a
result with its text in one of a few forms, each of which can be undone exactly. What was written never changes: only
what is about to be.
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
    """When and how results, and errors where asked, are told in another form. Off unless a conversation is given one.

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
    errors: bool = False
    """Vary every error too: a model imitates failures that look alike, and repeats what led to them."""
    introductions: bool = False
    """Introduce results in more ways: `Output of …:`, `… returned:`."""

    def __post_init__(self) -> None:
        if type(self.seed) is not int or type(self.window) is not int or not isinstance(self.similarity, float | int):
            raise UsageError(f"{self}: seed and window are whole numbers, similarity a share")
        if self.window < 1 or not 0 < self.similarity <= 1:
            raise UsageError(
                f"window={self.window}, similarity={self.similarity}: at least one step, and a share above 0 and up to 1"
            )

    def form(self, call_id: str, recent: Iterable[str] = (), *, is_error: bool = False) -> str:
        """The form of the answer to a call: none of the `recent` ones, while there is another."""
        forms = ERROR_FORMS if is_error else INTRODUCED_FORMS if self.introductions else FORMS
        left = [name for name in forms if name not in set(recent)] or list(forms)
        chance = blake2b(f"{self.seed} {call_id}".encode(), digest_size=8).digest()
        return left[int.from_bytes(chance, "big") % len(left)]


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
    forms: deque[str] = field(default_factory=deque)
    """How the last results were told."""
    _recent: deque[frozenset[int]] = field(default_factory=deque)
    _calls: dict[str, str] = field(default_factory=dict)

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        if entry.kind == "assistant":
            self._calls = {call["id"]: _variants(call) for call in parse(entry.body)["calls"]}
        elif entry.kind == "result":
            body = parse(entry.body)
            self.step(self._calls.get(body["call_id"], body["name"]), _text(body["content"]))
            self.forms.append(body.get("form", "plain"))
            if len(self.forms) > self.window:
                self.forms.popleft()

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
    """Body of a result with its texts told in `form`, which it names; what is not text stays as it is."""
    if form == "plain" or all(part["type"] != "text" for part in body["content"]):
        return body
    wrap = _EVERY_FORM[form][0]
    rewriters = [
        {**part, "text": wrap(body["name"], part["text"])} if part["type"] == "text" else part
        for part in body["content"]
    ]
    return {**body, "content": rewriters, "form": form}


def unvaried(body: Mapping[str, Json]) -> list[Json]:
    """The parts of a result as they were before `varied`, exactly.

    >>> result = {"name": "look", "is_error": False, "content": [{"type": "text", "text": chr(10).join(["a", "", "b"])}]}
    >>> all(unvaried(varied(result, form)) == result["content"] for form in FORMS)
    True
    """
    undo = _EVERY_FORM[body.get("form", "plain")][1]
    return [
        {**part, "text": undo(body["name"], part["text"])} if part["type"] == "text" else part
        for part in body["content"]
    ]


Rewriter = tuple[Callable[[str, str], str], Callable[[str, str], str]]
"""(how a tool's text is told, how the text is got back), both of the tool's name and the text."""


def _around(before: str, after: str) -> Rewriter:
    """Something before the text and behind it."""
    return (
        lambda name, text: f"{before.format(name)}{text}{after.format(name)}",
        lambda name, text: text[len(before.format(name)) : len(text) - len(after.format(name))],
    )


def _by_line(mark: Callable[[int], str]) -> Rewriter:
    """Something before each line."""
    return (
        lambda name, text: "\n".join(f"{mark(number)}{line}" for number, line in enumerate(text.split("\n"), 1)),
        lambda name, text: "\n".join(line[len(mark(number)) :] for number, line in enumerate(text.split("\n"), 1)),
    )


def _both(frame: Rewriter, lines: Rewriter) -> Rewriter:
    return (
        lambda name, text: frame[0](name, lines[0](name, text)),
        lambda name, text: lines[1](name, frame[1](name, text)),
    )


_FRAMES: dict[str, Rewriter] = {
    "bare": _around("", ""),
    "labelled": _around("Result of {}:\n", ""),
    "tagged": _around("<{0}>\n", "\n</{0}>"),
    "closed": _around("", "\n(That is all {} returned.)"),
}
_LINES: dict[str, Rewriter] = {
    "plain": _by_line(lambda number: ""),
    "quoted": _by_line(lambda number: "> "),
    "numbered": _by_line(lambda number: f"{number:>4} | "),
    "listed": _by_line(lambda number: "* "),
}
_INTRODUCTIONS: dict[str, Rewriter] = {
    "returned": _around("{} returned:\n", ""),
    "output": _around("Output of {}:\n", ""),
    "gave": _around("This is what {} gave:\n", ""),
    "from": _around("From {}:\n", ""),
}
_ERRORS: dict[str, Rewriter] = {
    "error": _around("Error of {}:\n", ""),
    "reported": _around("{} reported an error:\n", ""),
    "failed": _around("The call of {} failed:\n", ""),
    "marked": _around("<error>\n", "\n</error>"),
}


def _forms(frames: Mapping[str, Rewriter]) -> dict[str, Rewriter]:
    """Each frame with each way to write lines."""
    return {
        "plain" if (frame, lines) == ("bare", "plain") else f"{frame} {lines}": _both(frames[frame], _LINES[lines])
        for frame in frames
        for lines in _LINES
    }


FORMS = _forms(_FRAMES)
"""Form → how a tool's text is told in it, and got back; more than a window of steps, so that none need come twice in
one."""
INTRODUCED_FORMS = {**FORMS, **_forms(_INTRODUCTIONS)}
"""Those with more introductions."""
ERROR_FORMS = _forms({"bare": _FRAMES["bare"], **_ERRORS})
"""Forms of errors."""
_EVERY_FORM = {**INTRODUCED_FORMS, **ERROR_FORMS}


def _words(text: str) -> Iterator[str]:
    return (match.group() for match in _WORD.finditer(text))


def _hashed(words: Iterable[str]) -> int:
    """The same in every process: Python's own hash of text is not."""
    return int.from_bytes(blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _variants(call: Mapping[str, Json]) -> str:
    return f"{call['name']} {canonical(call['arguments']).decode()}"


def _text(parts: Iterable[Json]) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")
