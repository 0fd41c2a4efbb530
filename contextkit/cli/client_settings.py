"""Puts the status line into the settings of Claude Code, and takes it out again: no byte changes but those of the entry.

The file is JSON, with a byte order mark or without: Claude Code (2.1.197, 2.1.332) refuses comments and a comma behind the last
entry, and of two entries of one name it takes the last. What stood there is kept beside it until the entry is taken out.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shlex
import stat
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from contextkit.private_files import check_private, replacing
from contextkit.terminal import echo, echo_file

KEY = "statusLine"
MOST_BYTES = 1 << 20
"""Larger settings are not touched."""
EVERY_SECONDS = 10
"""Between two lines while nothing happens, so that the countdown goes on; a line takes a sixth of a second."""
_BOM = b"\xef\xbb\xbf"
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Installed:
    """What is kept of an install."""

    existed: bool
    """Whether there was a file."""
    former: str | None
    """The JSON of the status line that it had; None for none."""
    value: str
    """The JSON of ours."""
    written: str
    """SHA-256 of the file with ours; empty where the file had been edited before ours was last written."""


@dataclass(frozen=True, slots=True)
class _Member:
    """Places in a JSON text of one entry of its object."""

    name: str
    start: int
    """Of its name's first quote."""
    value_start: int
    end: int
    """Behind its value."""


def install(settings: Path, *, is_sure: bool) -> None:
    """Add the status line to the settings; raises `click.UsageError`, with nothing changed, where that cannot be done."""
    before = _read(settings)
    text = _text(settings, before)
    members = _members(settings, text)
    now, kept = _value(text, members), _installed(settings)
    entry = {"type": "command", "command": line_command(), "refreshInterval": EVERY_SECONDS}
    if kept is not None and now is not None and _is_same(now, kept.value):
        if json.loads(now) == entry:
            echo(f"the status line is in {settings} already; contextkit statusline --uninstall takes it out")
            return
        after = _with_entry(text, members, entry)  # written by another interpreter, or version
        is_unedited = _digest(before) == kept.written
        kept = Installed(kept.existed, kept.former, *_written(settings, before, after, is_unedited=is_unedited))
        backup = None
    elif kept is not None and now is not None and (kept.former is None or not _is_same(now, kept.former)):
        raise _changed(settings)
    else:
        after = _with_entry(text, members, entry)
        kept = Installed(before is not None, now, *_written(settings, before, after, is_unedited=True))
        backup = before
    _confirm(settings, text, after, is_sure=is_sure)
    if backup is not None:
        _write(_backup(settings), backup)
    _write(_record(settings), json.dumps(asdict(kept)).encode())
    _replace(settings, before, _bytes(before, after))
    beside = f"; {_backup(settings).name} beside it is the file as it was" if backup is not None else ""
    echo(f"the status line is in {settings}{beside}")


def uninstall(settings: Path, *, is_sure: bool) -> None:
    """Take the status line out again; raises `click.UsageError`, with nothing changed, where that cannot be done."""
    before, kept = _read(settings), _installed(settings)
    if kept is None:
        raise click.UsageError(
            f"{settings}: contextkit did not write its {KEY}, or {_record(settings).name} beside it is gone: take the "
            f"{KEY} out by hand"
        )
    text = _text(settings, before)
    members = _members(settings, text)
    now = _value(text, members)
    is_unedited = before is not None and _digest(before) == kept.written
    after: bytes | None
    if now is None or (kept.former is not None and _is_same(now, kept.former)):
        after = before  # somebody took it out
    elif not _is_same(now, kept.value):
        raise _changed(settings)
    elif is_unedited:
        after = _original(settings) if kept.existed else None
    else:
        after = _bytes(before, _without_entry(text, members, kept.former))
    if after != before:
        _confirm(settings, text, "" if after is None else _text(settings, after), is_sure=is_sure)
        if after is None:
            _check_unchanged(settings, before)
            settings.unlink()
        else:
            _replace(settings, before, after)
    for file in (_record(settings), _backup(settings)):
        file.unlink(missing_ok=True)
    echo(f"{settings} {'is gone, as before' if after is None else 'has no status line of contextkit any more'}")


def line_command() -> str:
    """Return the command of the status line, for a POSIX shell, which Claude Code uses on Windows too.

    `-P` keeps the folder it is run in, a project, from being a place to import from.
    """
    program = Path(sys.executable).as_posix()
    return shlex.join([program, "-P", "-m", "contextkit", "statusline"])


# The text
# ---------------------------------------------------------------------------------------------------------------------


def _members(settings: Path, text: str) -> list[_Member]:
    """Return the entries of the settings; raises `click.UsageError` for what is no JSON object."""
    if not text.strip(_BLANKS):
        return []
    try:
        whole = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise click.UsageError(f"{settings} is nested too deeply: write the {KEY} by hand") from None
    except ValueError as error:
        raise click.UsageError(
            f"{settings} is not JSON ({error}), so Claude Code passes it over: mend it first; it takes neither comments nor a "
            "comma behind the last entry"
        ) from None
    if not isinstance(whole, dict):
        raise click.UsageError(f"{settings} is JSON but no object, so Claude Code passes it over: put it into {{…}}")
    decoder, members = json.JSONDecoder(), list[_Member]()
    at = _skipped(text, text.index("{") + 1)
    while text[at] != "}":
        name, name_end = decoder.raw_decode(text, at)
        value_start = _skipped(text, _skipped(text, name_end) + 1)
        _, end = decoder.raw_decode(text, value_start)
        members.append(_Member(name, at, value_start, end))
        at = _skipped(text, end)
        at = _skipped(text, at + 1) if text[at] == "," else at
    return members


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no value")  # NaN and Infinity are Python's, not JSON's


def _skipped(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at


def _own(members: list[_Member]) -> _Member | None:
    """The entry of the status line: of several the last, as Claude Code takes that."""
    return next((member for member in reversed(members) if member.name == KEY), None)


def _value(text: str, members: list[_Member]) -> str | None:
    own = _own(members)
    return None if own is None else text[own.value_start : own.end]


def _is_same(one: str, other: str) -> bool:
    """Return whether two JSON texts say the same: Claude Code writes the file anew when it changes a setting."""
    return bool(json.loads(one) == json.loads(other))


def _with_entry(text: str, members: list[_Member], entry: dict[str, Any]) -> str:
    """Return the text with the entry in place of the present one, or behind the last, in the style of the file."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if not members:
        indent, break_ = "  ", newline
    else:
        lead = text[text.index("{") + 1 : members[0].start]
        indent = lead.rpartition("\n")[2] if "\n" in lead else ""
        break_ = newline if "\n" in lead else ""
    colon = text[members[0].start : members[0].value_start].rpartition(":")[2] if members else " "
    if break_:
        lines = json.dumps(entry, ensure_ascii=False, indent=indent or "  ").split("\n")
        value = (break_ + indent).join(lines)
    else:
        value = json.dumps(entry, ensure_ascii=False, separators=(", " if colon else ",", ":" + colon))
    own = _own(members)
    if own is not None:
        return text[: own.value_start] + value + text[own.end :]
    new = f'"{KEY}":{colon if not break_ or colon.strip(" ") == "" else " "}{value}'
    if members:
        between = "," + (break_ + indent if break_ else " " if colon else "")
        return text[: members[-1].end] + between + new + text[members[-1].end :]
    if not text.strip(_BLANKS):
        return f"{{{newline}{indent}{new}{newline}}}{newline}"
    start = text.index("{") + 1
    tail = "" if "\n" in text[start : text.rindex("}")] else newline
    return text[:start] + newline + indent + new + tail + text[start:]


def _without_entry(text: str, members: list[_Member], former: str | None) -> str:
    """Return the text with the former entry in place of ours, or without ours and its comma."""
    place = max(at for at, member in enumerate(members) if member.name == KEY)
    own = members[place]
    if former is not None:
        return text[: own.value_start] + former + text[own.end :]
    if place:
        start = text.index(",", members[place - 1].end)
        return text[:start] + text[own.end :]
    end = members[1].start if len(members) > 1 else own.end
    start = own.start if len(members) > 1 else text.index("{") + 1
    return text[:start] + text[end:]


# Files
# ---------------------------------------------------------------------------------------------------------------------


def _backup(settings: Path) -> Path:
    return settings.with_name(f"{settings.name}.before-contextkit")


def _record(settings: Path) -> Path:
    return settings.with_name(f"{settings.name}.contextkit")


def _read(settings: Path) -> bytes | None:
    """Return the file's bytes, None where there is none; raises where it cannot be changed."""
    if not settings.parent.is_dir():
        raise click.UsageError(
            f"{settings.parent} is no folder: start Claude Code once, which makes it, or name the file with --settings"
        )
    status = check_private(settings)
    for file in (_record(settings), _backup(settings)):
        check_private(file)
    if not os.access(settings.parent, os.W_OK):
        raise click.UsageError(f"{settings.parent} is read-only: allow writing to the folder, or name another file")
    if status is None:
        return None
    if not status.st_mode & stat.S_IWUSR or not os.access(settings, os.W_OK):
        raise click.UsageError(f"{settings} is read-only: allow writing to it first, or name another file")
    if status.st_size > MOST_BYTES:
        raise click.UsageError(
            f"{settings} has {status.st_size:,} bytes, too many for settings: write the {KEY} by hand"
        )
    return settings.read_bytes()


def _text(settings: Path, content: bytes | None) -> str:
    try:
        return (content or b"").removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{settings} is not UTF-8: save it as UTF-8 first") from None


def _bytes(before: bytes | None, text: str) -> bytes:
    return (_BOM if (before or b"").startswith(_BOM) else b"") + text.encode("utf-8")


def _digest(content: bytes | None) -> str:
    return hashlib.sha256(content or b"").hexdigest()


def _written(settings: Path, before: bytes | None, after: str, *, is_unedited: bool) -> tuple[str, str]:
    """Return the JSON of our entry in the text, and the digest of the file with it."""
    value = _value(after, _members(settings, after)) or ""
    return value, _digest(_bytes(before, after)) if is_unedited else ""


def _installed(settings: Path) -> Installed | None:
    """Return what an install kept; None where there was none."""
    file = _record(settings)
    if check_private(file) is None:
        return None
    try:
        return Installed(**json.loads(file.read_bytes()))
    except (ValueError, TypeError):
        raise click.UsageError(
            f"{file} is damaged: take the {KEY} out of {settings.name} by hand, then delete it"
        ) from None


def _original(settings: Path) -> bytes:
    try:
        return _backup(settings).read_bytes()
    except FileNotFoundError:
        raise click.UsageError(
            f"{_backup(settings)} is gone, which is {settings.name} as it was: take the {KEY} out by hand, then delete "
            f"{_record(settings).name}"
        ) from None


def _changed(settings: Path) -> click.UsageError:
    return click.UsageError(
        f"the {KEY} of {settings} was changed since contextkit wrote it, and is left as it is: take it out by hand if you "
        f"no longer want it, then delete {_record(settings).name} beside it"
    )


def _check_unchanged(settings: Path, before: bytes | None) -> None:
    now = settings.read_bytes() if os.path.lexists(settings) else None
    if now != before:
        raise click.UsageError(f"{settings} was changed meanwhile, and is left as it is: run the command again")


def _replace(settings: Path, before: bytes | None, after: bytes) -> None:
    with replacing(settings) as file:
        file.write(after)
        _check_unchanged(settings, before)


def _write(file: Path, content: bytes) -> None:
    with replacing(file) as part:
        part.write(content)


def _confirm(settings: Path, before: str, after: str, *, is_sure: bool) -> None:
    """Show what will change, and ask; ends the command where the answer is no."""
    from contextkit.redact import redact_text

    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), str(settings), str(settings), n=1
    )
    for line in lines:
        echo_file(redact_text(line.rstrip("\r\n")))
    if is_sure:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: --yes changes the settings without asking")
    if not click.confirm("Change the settings?", default=True):
        echo("nothing was changed")
        raise click.exceptions.Exit(0)
