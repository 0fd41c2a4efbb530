"""A mask for decoding: the ids that may come next while a model with its logits in reach spells the name of a tool.

Takes a vocabulary and the names that are allowed now; gives `allowed_token_ids(prefix_ids)`. Knows no model and no
tokeniser: names are bytes, and any way to cut them into tokens is as good as another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from contextkit.errors import UsageError
from contextkit.tools.masking.spelling import DONE, OUTSIDE, START, Spelling
from contextkit.tools.masking.vocabulary import Vocabulary


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
        self._spelling = Spelling(texts, self._vocabulary, may_follow)
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
        """Whether a name is said, up to and including `after`; raises as `allowed_token_ids`."""
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
