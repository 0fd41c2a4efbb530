"""The command line, for the tests that compare what commands print."""

from tests.cli.conftest import run

__all__ = ["run"]
