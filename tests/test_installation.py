"""The distribution of another project that installs a package `contextkit` too: the command and the plugin stop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def ended(*command: str, other: Path | None) -> subprocess.CompletedProcess[str]:
    """A command where `other`, a folder of installed distributions, is on Python's path."""
    places = [str(ROOT), *([str(other)] if other else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=other, capture_output=True, text=True, check=False
    )


def test_the_command_names_the_other_distribution_and_stops(tmp_path: Path) -> None:
    (tmp_path / "contextkit-0.0.10.dist-info").mkdir()
    run = ended("-m", "contextkit", "models", "claude-sonnet-5-5", other=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.count("\n") == 1 and str(tmp_path) in run.stderr and "`pip uninstall contextkit`" in run.stderr


def test_the_pytest_plugin_names_the_other_distribution_and_stops(tmp_path: Path) -> None:
    (tmp_path / "contextkit-0.0.10-py3.11.egg-info").mkdir()
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    plugin = ("-p", "contextkit.pytest_plugin", "-p", "no:cacheprovider")
    run = ended("-m", "pytest", *plugin, "test_nothing.py", other=tmp_path)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert str(tmp_path) in run.stderr and "`pip install --force-reinstall contextkit-sdk`" in run.stderr


def test_its_own_distribution_does_not_stop_it(tmp_path: Path) -> None:
    (tmp_path / "contextkit_sdk-0.1.0.dist-info").mkdir()
    assert ended("-m", "contextkit", "--help", other=tmp_path).returncode == 0
