"""A mask for decoding: the token ids that may come next while a model spells the name of an allowed tool.

`Vocabulary` finds tokens by their bytes, given the bytes of each token in id order. `TextTrie` holds the allowed names as
a byte trie and gives the ids that may follow at each place: an id is allowed if, and only if, some further tokens lead
from behind it to the end of a name. A place is reached byte by byte, so two ways to cut the same bytes into tokens lead to
the same one; a token that goes past the end of a name is allowed where its rest may follow. `TokenMask` gives
`allowed_token_ids(prefix_ids)`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise

from contextkit.errors import UsageError

_BYTES = bytes(range(256))


class Vocabulary:
    """Tokens to be found by their bytes; made once for a model, shared by all its masks.

    >>> vocabulary = Vocabulary([b"s", b"se", b"search", b"se", None])
    >>> vocabulary.ids(b"se"), list(vocabulary.longer_than(b"se"))
    ([1, 3], [b'search'])
    """

    __slots__ = ("_ids", "_sorted", "_tokens", "longest")

    def __init__(self, tokens: Iterable[bytes | None]) -> None:
        """`tokens[id]` is what the token says.

        None or `b""` for special tokens, which say nothing and are never part of a name.

        Raises `UsageError` for text: which bytes it stands for is the tokeniser's to say.
        """
        self._tokens = [token or b"" for token in tokens]
        wrong = next((index for index, token in enumerate(self._tokens) if not isinstance(token, bytes)), None)
        if wrong is not None:
            kind = type(self._tokens[wrong]).__name__
            raise UsageError(
                f"token {wrong} of the vocabulary is {kind}, not bytes: tiktoken's decode_single_token_bytes(id) gives them"
            )
        self._ids: dict[bytes, list[int]] = {}
        for index, token in enumerate(self._tokens):
            if token:
                self._ids.setdefault(token, []).append(index)
        self._sorted = sorted(self._ids)
        self.longest = max(map(len, self._sorted), default=0)
        """Bytes of the longest token."""

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: int) -> bytes:
        """The bytes of a token; empty for a special one. Raises `IndexError`."""
        if index < 0:
            raise IndexError(index)
        return self._tokens[index]

    def ids(self, token: bytes) -> Sequence[int]:
        """The ids that say exactly `token`; several where a vocabulary says it twice."""
        return self._ids.get(token, ())

    def longer_than(self, prefix: bytes) -> Sequence[bytes]:
        """The tokens that begin with `prefix` and go on."""
        first = bisect_left(self._sorted, prefix + b"\0")
        after = _successor(prefix)
        return self._sorted[first : len(self._sorted) if after is None else bisect_left(self._sorted, after, first)]

    def openings(self, letters: bytes) -> set[bytes]:
        """What the tokens say before their first byte that is none of `letters`."""
        run = re.compile(b"[" + re.escape(letters) + b"]*").match
        return {found.group() for found in map(run, self._sorted) if found is not None}


def _successor(prefix: bytes) -> bytes | None:
    """The least bytes that are greater than all that begin with `prefix`; None where there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + _BYTES[stem[-1] + 1 : stem[-1] + 2] if stem else None


START = 0
"""The state in which nothing is said yet."""
DONE = -1
"""The state behind the end of a text."""
OUTSIDE = -2
"""No state: what was said leads to none of the texts."""


class TextTrie:
    """The texts, and for each place in them what may come next."""

    __slots__ = ("_alive", "_children", "_ends", "_inner", "_may_follow", "_merged", "_past", "_places", "_vocabulary")

    def __init__(self, texts: Sequence[bytes], vocabulary: Vocabulary, may_follow: Callable[[bytes], bool]) -> None:
        """None of `texts` is the beginning of another, and none is empty."""
        self._vocabulary, self._may_follow = vocabulary, may_follow
        self._children: list[dict[int, int]] = [{}]
        self._ends: dict[bytes, int] = {text: self._grow(text) for text in texts}
        self._inner: list[list[int]] = [[] for _ in self._children]
        self._past: list[list[Sequence[int]]] = [[] for _ in self._children]
        self._places: list[list[int]] = [[] for _ in self._children]
        self._alive = bytearray(len(self._children))
        self._merged: dict[int, Sequence[int]] = {}
        self._connect(_stems(vocabulary.openings(bytes({byte for text in texts for byte in text}))))

    def unspellable(self) -> list[bytes]:
        """The texts that no tokens say."""
        reached = bytearray(len(self._children))
        reached[START] = 1
        for state, places in enumerate(self._places):  # a place stands behind those that lead to it
            if reached[state]:
                for place in places:
                    reached[place] = 1
        return [text for text, end in self._ends.items() if not reached[end]]

    def next_ids(self, state: int) -> Sequence[int]:
        """The ids that may come in `state`, a place in the texts; made once and kept."""
        found = self._merged.get(state)
        if found is None:
            parts = [part for part in (tuple(self._inner[state]), *self._past[state]) if part]
            found = self._merged[state] = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
        return found

    def step(self, state: int, token: bytes) -> int:
        """The state behind `token`: `DONE` where it ends a text or goes past its end, `OUTSIDE` where it leads to none."""
        children = self._children
        for n_said, byte in enumerate(token, 1):
            state = children[state].get(byte, OUTSIDE)
            if state == OUTSIDE:
                return OUTSIDE
            if not children[state]:
                return DONE if n_said == len(token) or self._may_follow(token[n_said:]) else OUTSIDE
        return state if self._alive[state] else OUTSIDE

    def _grow(self, text: bytes) -> int:
        state = START
        for byte in text:
            following = self._children[state].get(byte)
            if following is None:
                following = self._children[state][byte] = len(self._children)
                self._children.append({})
            state = following
        return state

    def _connect(self, stems: set[bytes]) -> None:
        """What leads from each place to where.

        From the back, since a place is alive where a token leads to one that is.
        """
        past: dict[bytes, Sequence[int]] = {}
        for state in range(len(self._children) - 1, -1, -1):
            for spelled, place in self._below(state, stems):
                if self._children[place]:
                    ids = self._vocabulary.ids(spelled) if self._alive[place] else ()
                    self._inner[state] += ids
                else:
                    ids = past[spelled] if spelled in past else past.setdefault(spelled, self._ids_past(spelled))
                    self._past[state] += [ids] if ids else []
                if ids:
                    self._places[state].append(place)
            self._alive[state] = bool(self._places[state])

    def _below(self, state: int, stems: set[bytes]) -> Iterator[tuple[bytes, int]]:
        """Every place behind `state` that one token might lead to, and what it would say."""
        pending = [(b"", state)]
        while pending:
            said, place = pending.pop()
            for byte, following in self._children[place].items():
                spelled = said + _BYTE[byte]
                if not self._children[following]:
                    yield spelled, following
                elif spelled in stems:
                    yield spelled, following
                    pending.append((spelled, following))

    def _ids_past(self, rest: bytes) -> tuple[int, ...]:
        """The ids of the tokens that say `rest`, or `rest` and something that may follow."""
        found = list(self._vocabulary.ids(rest))
        for token in self._vocabulary.longer_than(rest):
            if self._may_follow(token[len(rest) :]):
                found += self._vocabulary.ids(token)
        return tuple(sorted(found))


_BYTE = [bytes([byte]) for byte in range(256)]


def _stems(tokens: Iterable[bytes]) -> set[bytes]:
    """Every beginning of every token, the whole of it included: where none goes on, nothing further need be tried."""
    return {token[:n] for token in tokens for n in range(1, len(token) + 1)}


class TokenMask:
    """What may be said from the place where a name is due until it is said.

    The text allowed is `before`, one of `names`, `after`, and then anything `may_follow` takes (by default: anything at
    all). `before` is empty where the call's opening stands in the prompt already, else it is forced along with the
    name.

    >>> mask = TokenMask([b"browser", b"_open", b"_close", b'"', b'",', b"x"], ["browser_open", "browser_close"])
    >>> mask.allowed_token_ids([]), mask.allowed_token_ids([0]), mask.allowed_token_ids([0, 1])
    ((0,), (1, 2), (3, 4))
    >>> mask.is_done([0, 1, 3])
    True
    """

    __slots__ = ("_everything", "_spelling", "_vocabulary", "names")

    def __init__(
        self,
        vocabulary: Vocabulary | Iterable[bytes | None],
        names: Iterable[str],
        after: str = '"',
        *,
        before: str = "",
        may_follow: Callable[[bytes], bool] = lambda rest: True,
    ) -> None:
        """`may_follow(rest)` says of the bytes that a token has beyond `after` whether the call may go on with them.

        Raises `UsageError` for no names, for a name whose text is the beginning of another's (an `after` tells them
        apart), and for one that the vocabulary cannot spell.
        """
        self._vocabulary = vocabulary if isinstance(vocabulary, Vocabulary) else Vocabulary(vocabulary)
        self.names = tuple(dict.fromkeys(names))
        """The names allowed."""
        texts = sorted(f"{before}{name}{after}".encode() for name in self.names)
        _check(texts)
        self._spelling = TextTrie(texts, self._vocabulary, may_follow)
        if missing := self._spelling.unspellable():
            raise UsageError(
                f"{missing[0].decode()!r} cannot be spelled with this vocabulary: is it the one of the model?"
            )
        self._everything = range(len(self._vocabulary))

    def allowed_token_ids(self, prefix_ids: Sequence[int]) -> Sequence[int]:
        """The ids that may come after `prefix_ids`, which are those said since the mask began.

        Every id once a name is said.

        Raises `UsageError` where `prefix_ids` themselves are not allowed: the mask was not applied to them.
        """
        state = self._state(prefix_ids)
        return self._everything if state == DONE else self._spelling.next_ids(state)

    def is_done(self, prefix_ids: Sequence[int]) -> bool:
        """Return whether a name is said, up to and including `after`; raises as `allowed_token_ids`."""
        return self._state(prefix_ids) == DONE

    def _state(self, prefix_ids: Sequence[int]) -> int:
        state, step, vocabulary = START, self._spelling.step, self._vocabulary
        for place, index in enumerate(prefix_ids):
            try:
                token = vocabulary[index]
            except IndexError:
                token = b""
            state = step(state, token) if token else OUTSIDE
            if state == DONE:
                return DONE
            if state == OUTSIDE:
                raise UsageError(
                    f"token {index} at place {place} leads to no allowed name: the mask must hold from where the name begins"
                )
        return state


def _check(texts: Sequence[bytes]) -> None:
    """Raises `UsageError` unless each sorted text ends where only it can end."""
    if not texts or not all(texts):
        raise UsageError(
            "no names to allow: a mask that allows nothing leaves the model nothing to say; forbid calling instead"
        )
    for one, other in pairwise(texts):
        if other.startswith(one):
            raise UsageError(
                f"{one.decode()!r} is the beginning of {other.decode()!r}: give what stands after the name, such as '\"'"
            )
