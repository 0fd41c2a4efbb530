"""A tokeniser's vocabulary as bytes: which ids spell these bytes, which tokens begin with them.

Takes the bytes of each token in id order; gives lookups. Knows no tokeniser: how its entries become bytes is the
caller's to say.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

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
