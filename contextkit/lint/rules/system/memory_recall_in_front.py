"""Source rules of CKS05 memory-recall-in-front."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (Flow(("recall",), ("system", "front"), "{source} finds something else for each question and reaches {sink}"),)
