"""What every test folder shares: the option for the long versions, and the folder of real conversations."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

EXAMPLES = {False: 12, True: 400}
"""Whether `--full` was given → generated conversations a law is tried on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the long versions: 200 kills instead of 8, and the like")


def pytest_configure(config: pytest.Config) -> None:
    """The profile `laws`, taken by the tests that ask for it: `settings.get_profile("laws")`."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    settings.register_profile("laws", max_examples=EXAMPLES[config.getoption("--full")], deadline=None, suppress_health_check=slow)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data that may lie beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("shared data is not beside this checkout")
    return folder
