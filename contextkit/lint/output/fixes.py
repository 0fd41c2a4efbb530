"""Fixes of files, made or shown: all edits of a fix or none, and never a file that no longer parses."""

from __future__ import annotations

import difflib
import io
import re
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from contextkit.lint.finding import CodePlace, Edit, Finding, Fix
from contextkit.private_files import replacing

_ROUNDS = 5
"""A fix may make room for the next; after so many rounds the rest is left for another run."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A file with its changes."""

    file: str
    """Path as it was given."""
    before: bytes
    """What it holds."""
    after: bytes
    """What it would hold."""
    findings: tuple[Finding, ...]
    """Those that are gone with it."""


def mended(findings: Iterable[Finding], *, is_unsafe: bool = False) -> Iterator[Mended]:
    """Yield each file with the fixes of its findings; left out is one that overlaps an earlier one, that breaks the file, or
    that is not safe, unless `is_unsafe`.
    """
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        is_wanted = finding.fix is not None and (is_unsafe or finding.fix.is_safe)
        if is_wanted and isinstance(finding.place, CodePlace):
            by_file.setdefault(finding.place.file, []).append(finding)
    for file, in_file in by_file.items():
        before = Path(file).read_bytes()
        chosen = _chosen(before, in_file)
        if chosen:
            yield Mended(file, before, _applied(before, _fixes(chosen)), tuple(chosen))


def fix(find: Callable[[], Sequence[Finding]], *, is_unsafe: bool = False) -> tuple[Sequence[Finding], int]:
    """Fix what `find` finds, the unsafe fixes too if `is_unsafe`; return the findings that are left, and how many were fixed."""
    left, n_fixed = find(), 0
    for _ in range(_ROUNDS):
        changes = list(mended(left, is_unsafe=is_unsafe))
        if not changes:
            break
        for change in changes:
            write(change)
            n_fixed += len(change.findings)
        left = find()
    return left, n_fixed


def write(change: Mended) -> None:
    """Replace the file: a reader sees all of the change or nothing of it; links and permissions stay.

    Raises `PermissionError` for a file that may not be written, though it could be replaced, `StorageError` for one of
    another user, whose owner would change.
    """
    with replacing(Path(change.file).resolve()) as file:
        file.write(change.after)


def diff(change: Mended) -> str:
    """Return the change as a unified diff."""
    lines_of_diff = difflib.unified_diff(
        _lines(change.before), _lines(change.after), f"a/{change.file}", f"b/{change.file}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines_of_diff)


def _chosen(source: bytes, findings: Sequence[Finding]) -> list[Finding]:
    """Return those whose fixes go together; one after another only where all at once do not parse."""
    apart = _apart(findings)
    if _parses(_applied(source, _fixes(apart))):
        return apart
    left: list[Finding] = []
    for finding in apart:
        if _parses(_applied(source, _fixes([*left, finding]))):
            left.append(finding)
    return left


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings whose edits touch nothing that another's do; two with the same edits are one."""
    left: list[Finding] = []
    fixes: list[Fix] = []
    for finding in findings:
        fix = finding.fix
        if fix is None or not fix.edits:
            continue
        is_listed = any(fix.edits == other.edits for other in fixes)
        if not is_listed and any(
            _overlap(edit, other_edit) for edit in fix.edits for other in fixes for other_edit in other.edits
        ):
            continue
        left.append(finding)
        fixes.append(fix)
    return left


def _overlap(one: Edit, other: Edit) -> bool:
    """Return whether they share a byte, or an insertion's place lies in or at the other."""
    return one.start <= other.end and other.start <= one.end


def _fixes(findings: Iterable[Finding]) -> list[Fix]:
    """Return their fixes, each once."""
    return list({finding.fix.edits: finding.fix for finding in findings if finding.fix is not None}.values())


def _applied(source: bytes, fixes: Iterable[Fix]) -> bytes:
    encoding = _encoding(source)
    result = source
    for edit in sorted((edit for fix in fixes for edit in fix.edits), key=lambda edit: edit.start, reverse=True):
        result = result[: edit.start] + edit.text.encode(encoding) + result[edit.end :]
    return result


def _parses(source: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's file, which said so already
        try:  # a `return` outside of a function parses, and is no module
            compile(source, "fixed", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


def _encoding(source: bytes) -> str:
    """Return the encoding that the file names; an edit stands behind the byte order mark, if there is one."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return encoding.replace("utf-8-sig", "utf-8")


def _lines(source: bytes) -> list[str]:
    """Return lines with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", source.decode(_encoding(source), errors="replace"))
