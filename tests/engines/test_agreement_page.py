"""`docs/reference/engine-agreement.md` says what the recorded runs say."""

from __future__ import annotations

from tests.engines.agreement_page import PAGE, page


def test_the_page_is_that_of_the_recordings() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.engines.agreement_page --write"
