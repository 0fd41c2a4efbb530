"""Looking: the findings in code and in recordings, and what is said beside them on standard error.

Takes what is given and a config, gives findings; counts what was looked at. Knows no format.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contextkit.cli.linting.paths import STDIN, Given
from contextkit.cli.terminal.counter import counter
from contextkit.errors import UnreadableLog
from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import Finding
from contextkit.lint.output.counts import Looked, counted
from contextkit.lint.source.detect import find_in_code
from contextkit.terminal import echo_error

if TYPE_CHECKING:
    from contextkit.importers.source import Faults
    from contextkit.ledger.calls import Exchange, Remark

TOLD = 5
"""Folders that are named before the rest is counted."""
ROUNDS = 5
"""A change may make room for the next; after so many rounds the rest is left for another run."""
Sift = Callable[[Sequence[Finding]], list[Finding]]
"""Findings in code → those that are to be told."""


class Look:
    """One run of the detectors over what is given.

    `sift` says which findings in code are told, all where there is none.
    """

    def __init__(self, given: Given, config: LintConfig, jobs: int | None, sift: Sift | None = None) -> None:
        self._given, self._config, self._jobs, self._sift = given, config, jobs, sift
        self._n_files, self._n_calls, self._n_sifted = 0, 0, 0
        self._tests: set[str] = set()
        self._closed: dict[str, str] = {}

    @property
    def looked(self) -> Looked:
        """How much was looked at, so far."""
        return Looked(self._n_files if self._given.code else None, self._n_calls if self._given.recordings else None)

    def in_code(self) -> list[Finding]:
        """Findings of the source detector; raises a usage error for a named folder that cannot be looked into."""
        if not self._given.code:
            return []
        with _counter() as tell:

            def count(done: int, total: int) -> None:
                self._n_files = total
                tell(f"{done:,} of {total:,} files read")

            found = find_in_code(
                self._given.code,
                self._config,
                hazards(),
                jobs=self._jobs,
                progress=count,
                left_out=self._tests.add,
                closed=self._closed.__setitem__,
                contents=self._given.contents,
            )
            everything = list(found)
        for path in {str(Path(path)) for path in self._given.code} & self._closed.keys():
            raise click.UsageError(f"{path}: {self._closed[path]}")
        told = self._sift(everything) if self._sift else everything
        self._n_sifted = len(everything) - len(told)
        return told

    def tell_left_out(self) -> None:
        """Say which files and folders nobody looked at, and how many findings are not told, once for all looks."""
        if self._n_sifted:
            echo_error(f"{counted(self._n_sifted, 'hazard')} left out: in the baseline")
        if self._tests:
            echo_error(f"{counted(len(self._tests), 'file')} of tests left out: name them, or add --tests")
        for path, reason in sorted(self._closed.items())[:TOLD]:
            echo_error(f"{path}: left out, the folder cannot be looked into: {reason}")
        if len(self._closed) > TOLD:
            echo_error(f"and {len(self._closed) - TOLD:,} more of these")

    def in_recordings(self) -> Iterator[Finding]:
        """Findings of recordings, record by record: a recording may be larger than memory."""
        from contextkit.importers.source import Faults

        faults = Faults()
        with _counter() as tell:
            for file in self._given.recordings:
                try:
                    yield from self._in_recording(file, faults, tell)
                except UnreadableLog as error:
                    if file != STDIN:
                        raise
                    raise UnreadableLog(re.sub(r"^-( line 1)?: ", "standard input: ", str(error))) from None
        for fault in faults.kept:
            echo_error(str(fault))
        if len(faults) > len(faults.kept):
            echo_error(f"and {len(faults) - len(faults.kept):,} more of these")

    def _in_recording(self, file: str, faults: Faults, tell: Callable[[str], None]) -> Iterator[Finding]:
        from contextkit.importers.found import check_any_read, records_in
        from contextkit.ledger.calls import Remark
        from contextkit.lint.requests.detect import Detector

        verdicts, rerouted = dict[str, str](), dict[str, str]()
        detector = Detector(hazards(), verdicts=verdicts, rerouted=rerouted)
        before = faults.n_files, faults.n_refused
        waiting: list[Exchange] = []
        for record in records_in([file], faults):
            if isinstance(record, Remark):
                _note(record, verdicts, rerouted)
                continue
            for exchange in waiting:  # what is said of a call may stand right behind it
                yield from self._selected(detector.feed(exchange))
            tell(f"{detector.n_calls:,} calls compared")
            waiting = [record]
        for exchange in waiting:
            yield from self._selected(detector.feed(exchange))
        yield from self._selected(detector.finish())
        check_any_read(faults, *before)
        self._n_calls += detector.n_calls
        _tell_bodiless(file, detector.n_skipped, detector.n_skipped + detector.n_calls + detector.n_unreadable)

    def _selected(self, found: Iterator[Finding]) -> Iterator[Finding]:
        return (finding for finding in found if self._config.is_selected(finding.code))


def _note(remark: Remark, verdicts: dict[str, str], rerouted: dict[str, str]) -> None:
    """Keep what the detector is to know of a call."""
    from contextkit.ledger.calls import OTHER_PROJECT, REROUTED

    if remark.kind == "verdict":
        verdicts[remark.about] = remark.text
    elif remark.kind == "setting" and remark.text.startswith((REROUTED, OTHER_PROJECT)):
        rerouted[remark.about] = remark.text.removeprefix(REROUTED)


def _tell_bodiless(file: str, n_skipped: int, n_all: int) -> None:
    if n_skipped or not n_all:
        what = f"{n_skipped:,} of {n_all:,} calls were recorded without their bodies" if n_all else "no calls in it"
        echo_error(f"{file}: {what}; nothing to look at")


def _counter() -> AbstractContextManager[Callable[[str], None]]:
    return counter(is_shown=sys.stderr is not None)  # closed, as by `2>&-`


def mend(look: Callable[[], Sequence[Finding]]) -> tuple[Sequence[Finding], int]:
    """Make the safe changes; gives what is left, and how many findings were mended."""
    from contextkit.lint.output.mend import mended, write

    left, n_fixed = look(), 0
    for _ in range(ROUNDS):
        changes = list(mended(left))
        if not changes:
            break
        for change in changes:
            write(change)
            n_fixed += len(change.findings)
        left = look()
    return left, n_fixed
