"""Which tokens a local model may say where the name of a tool is due."""

from __future__ import annotations

from contextkit.tools.masking.token_mask import TokenMask
from contextkit.tools.masking.vocabulary import Vocabulary

__all__ = ["TokenMask", "Vocabulary"]
