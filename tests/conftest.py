"""What every test folder shares: the option for the long versions, and the folder of real conversations."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the long versions: 200 kills instead of 8, and the like")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data that may lie beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("shared data is not beside this checkout")
    return folder
