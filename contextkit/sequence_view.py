"""Read-only view of a sequence that only its owner extends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class SequenceView(Sequence[T_co]):
    """View of a list that grows; it cannot be changed through the view, and a slice is a copy.

    >>> owned = [1, 2]
    >>> view = SequenceView(owned)
    >>> owned.append(3)
    >>> view[-1], len(view), view == [1, 2, 3]
    (3, 3, True)
    """

    __slots__ = ("_of",)

    def __init__(self, of: Sequence[T_co]) -> None:
        self._of = of

    def __len__(self) -> int:
        return len(self._of)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | Sequence[T_co]:
        return self._of[index]

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._of)

    def __reversed__(self) -> Iterator[T_co]:
        return reversed(self._of)

    def __eq__(self, other: object) -> bool:
        return self._of == (other._of if isinstance(other, SequenceView) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._of)
