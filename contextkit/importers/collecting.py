"""Python's collector of circles, told to look seldom while much is read: what readers make has none, and every look
goes through all of it.

Takes nothing, gives a context. Knows no format.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (200_000, 50, 100)
"""Objects made between two looks, and how many looks until older ones are looked at too; mypy's own figures are alike.
"""


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Looks seldom inside, as before behind it; for the process that reads, and nothing beside it."""
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
