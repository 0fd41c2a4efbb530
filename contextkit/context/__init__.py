"""The one object a user holds."""

from __future__ import annotations

from contextkit.context.context import Context

__all__ = ["Context"]
