"""The clock that a test sees: `MovedClock` moves it, `real_time` reads the one that it does not."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self


def real_time() -> float:
    """Return the seconds since 1970 by the real clock."""
    try:
        from time_machine import escape_hatch
    except ImportError:
        return time.time()
    return float(escape_hatch.time.time()) if escape_hatch.is_travelling() else time.time()


def can_be_moved() -> bool:
    """Return whether the package that moves the clock is installed."""
    try:
        import time_machine  # noqa: F401
    except ImportError:
        return False
    return True


class MovedClock:
    """A wall clock that is a step further, and goes a step further at each call of `advance`; timers are not moved."""

    def __init__(self, step_seconds: int) -> None:
        self._step_seconds = step_seconds
        self._travel: Any = None
        self._traveller: Any = None

    def advance(self) -> None:
        """Move it on by a step."""
        if self._traveller is not None:
            self._traveller.shift(self._step_seconds)

    def __enter__(self) -> Self:
        """Start; does nothing where a test has left a frozen clock behind."""
        import time_machine

        self._travel = time_machine.travel(real_time() + self._step_seconds, tick=True)
        try:
            self._traveller = self._travel.start()
        except RuntimeError:
            self._traveller = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._traveller is not None:
            self._travel.stop()
            self._traveller = None
