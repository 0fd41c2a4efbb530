"""Frameworks leave clients of closed event loops behind: they are swept up before the next test, which would be blamed
for them."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator

import pytest

FRAMEWORKS = {"agents", "claude_agent_sdk", "langchain", "litellm", "pydantic_ai"}


@pytest.fixture(autouse=True)
def _swept() -> Iterator[None]:
    yield
    if not FRAMEWORKS & sys.modules.keys():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
