"""Source rules of CKS12 prompt-variant-fragmentation."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (Flow(("choice",), ("system",), "{source} chooses a text for {sink} anew for each request"),)
