"""The distribution contextkit is installed from, and the one of another project that installs the same package."""

from __future__ import annotations

import sys
from pathlib import Path

from contextkit.errors import UsageError

DISTRIBUTION = "contextkit-sdk"
"""Name on the package index; the package and the command are called `contextkit`."""


def check_installation() -> None:
    """Raise `UsageError` if the distribution `contextkit`, of another project, is installed too.

    Both write into one folder `contextkit/`, so either may have replaced modules of the other. Looks at file names
    only, as `importlib.metadata` takes longer than many a command.
    """
    for folder in map(Path, sys.path):
        for other in (*folder.glob("contextkit-*.dist-info"), *folder.glob("contextkit-*.egg-info")):
            raise UsageError(
                f"{other} is of the distribution `contextkit`, which installs a package `contextkit` too, and each replaces files of the "
                f"other: run `pip uninstall contextkit`, then `pip install --force-reinstall {DISTRIBUTION}`"
            )
