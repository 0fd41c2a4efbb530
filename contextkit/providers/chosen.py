"""The row of the model that a user chose for an adapter, with one warning where its rules had to be assumed."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from contextkit.models import AssumedModelWarning, Model, assumption, model_named
from contextkit.terminal import sanitize

_PACKAGE = str(Path(__file__).resolve().parents[1])


def chosen_model(name: str, provider: str) -> Model:
    """Return `model_named(name, provider)`.

    Warns with `AssumedModelWarning`, at the user's own line, where its rules are assumed.
    """
    row = model_named(name, provider)
    if row.is_assumed:
        warnings.warn(sanitize(assumption(row)), AssumedModelWarning, stacklevel=_users_level())
    return row


def _users_level() -> int:
    """How many frames above `chosen_model` the first one outside this package is, as `warnings.warn` counts them."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
