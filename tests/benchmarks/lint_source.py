"""CPU time of `contextkit lint`: of one small file, start-up included, and of a tree of 1,000 files, beside pcdlint.

    python tests/benchmarks/lint_source.py [--rounds 3] [--files 1000] [--tree FOLDER] [--without-peer]

The tree is made of files of the installed packages of this Python, evenly taken from their sorted list, unless a folder
is given. pcdlint (PyPI) is installed into a temporary environment; where that fails, its column is left out and why is
said. Each command runs in a process of its own, turn by turn, and the least counts: what else the machine does only
ever adds. CPU time is that of user and system, of the process and its children.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

PEER = "pcdlint==0.3.0"
SMALL = Path(__file__).resolve().parents[1] / "lint_cases" / "source" / "CKS01_clock_in_system.py"
"""A file as people write them, of some hundred lines."""


def cpu_seconds(command: Sequence[str]) -> float:
    """Of one run; raises `CalledProcessError` where the command crashed, and not where it found something."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 2) or "Traceback" in said:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)
    return used.ru_utime + used.ru_stime


def make_tree(folder: Path, n_files: int) -> None:
    """Copy evenly spaced files of the installed packages, in their folders."""
    packages = Path(sysconfig.get_path("purelib"))
    files = sorted(packages.rglob("*.py"))
    if len(files) < n_files:
        raise SystemExit(f"{packages} has {len(files):,} files; give fewer by --files")
    for number in range(n_files):
        file = files[number * len(files) // n_files]
        target = folder / file.relative_to(packages)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def install_peer(folder: Path) -> list[str] | None:
    """The command of the peer; None, and why on standard error, where it cannot be installed."""
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    ran = subprocess.run(
        [scripts / "python", "-m", "pip", "install", "--quiet", PEER], check=False, capture_output=True, text=True
    )
    if ran.returncode:
        print(f"{PEER} cannot be installed: {ran.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return [str(scripts / "pcdlint")]


def measure(commands: Mapping[str, Sequence[str]], target: Path, rounds: int) -> dict[str, float]:
    """Name of a tool → the least CPU seconds over some rounds."""
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(rounds):
        for name, command in commands.items():
            least[name] = min(least[name], cpu_seconds([*command, str(target)]))
    return least


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--rounds", type=int, default=3)
    reader.add_argument("--files", type=int, default=1000, help="how many files the tree is made of")
    reader.add_argument("--tree", type=Path, help="a folder to lint in place of one that is made")
    reader.add_argument("--without-peer", action="store_true")
    chosen = reader.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        tree = chosen.tree or Path(temporary) / "tree"
        if chosen.tree is None:
            make_tree(tree, chosen.files)
        commands: dict[str, Sequence[str]] = {"contextkit": [sys.executable, "-m", "contextkit", "lint", "--tests"]}
        peer = None if chosen.without_peer else install_peer(Path(temporary) / "venv")
        if peer is not None:
            commands["pcdlint"] = peer
        for name, target in (("one file", SMALL), (f"{sum(1 for _ in tree.rglob('*.py')):,} files", tree)):
            least = measure(commands, target, chosen.rounds)
            row = ", ".join(f"{tool} {seconds:.2f} s" for tool, seconds in least.items())
            ratio = f", ratio {least['contextkit'] / least['pcdlint']:.2f}" if "pcdlint" in least else ""
            print(f"{name}: {row}{ratio}", flush=True)


if __name__ == "__main__":
    main()
