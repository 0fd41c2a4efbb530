"""What the readers of agents' transcripts share: lines in one spelling, and times as people and machines write them.

Takes a source or a value, gives lines or seconds. Knows no format.
"""

from __future__ import annotations

from datetime import UTC, datetime

import orjson

from contextkit.importers.source import Source, load_json
from contextkit.providers.usage import MOST_USD

EARLIEST = 1_577_836_800.0
"""The first of January 2020: no log of these formats is older, so an earlier time is a clock that was never set."""
LATEST = 253_402_300_799.0
"""The end of the year 9999: what is later is no time."""
_MILLIONS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""(a number above this, counts so many a second): nanoseconds, microseconds, milliseconds; 1e11 seconds would be the
year 5138."""
_MOST_NANOSECONDS = LATEST * 1e9
_OPEN = ord("{")
_HEAD = 4096


def has_blanks(head: bytes) -> bool:
    """Return whether somebody wrote a file anew with blanks between the parts of its lines: `{"a": 1}`."""
    return b'": ' in head[:_HEAD] and b'":"' not in head[:_HEAD]


def spelled(source: Source, number: int, line: bytes, *, is_spaced: bool) -> bytes | None:
    r"""A line without blanks between its parts: `{"a":1}`, its newline kept.

    None, and a fault, for what can be no object.

    So a reader finds keys by their bytes: inside a string a quote is always escaped, `"key":"` can be nothing but a
    key. Files are written like this; the lines of one that somebody wrote anew with blanks are spelled again.
    """
    has_end = line[-2:] == b"}\n" or line.rstrip().endswith(b"}")
    if not has_end or (line[0] != _OPEN and not line.lstrip().startswith(b"{")):
        source.fault(number, CUT)
        return None
    if not is_spaced:
        return line
    record = parsed(source, number, line)
    return None if record is None else orjson.dumps(record)


CUT = "no JSON object, or one that was cut; passed over"
"""Said of a line that nobody can read."""


def parsed(source: Source, number: int, line: bytes) -> dict[str, object] | None:
    """The object of a line; None, and a fault, where it is none."""
    try:
        record = load_json(line)
    except orjson.JSONDecodeError:
        source.fault(number, CUT)
        return None
    return record if isinstance(record, dict) else None


def moment(value: object) -> float | None:
    """Seconds since 1970 of a time as logs write it: ISO 8601, or a count of seconds, milli-, micro- or nanoseconds.

    None for what is none.

    >>> moment("2026-04-09T01:03:35.960Z"), moment(1775696615960), moment(1775696615.96), moment("yesterday")
    (1775696615.96, 1775696615.96, 1775696615.96, None)
    """
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_NANOSECONDS:
        return None
    for least, unit in _MILLIONS:
        if value > least:
            return value / unit
    return value / 1.0


def plausible(value: object) -> float | None:
    """As `moment`, None too for a clock that was never set, and for a number that is no time.

    >>> plausible("1970-01-01T00:00:09Z"), plausible("2026-04-09T01:03:35Z"), plausible(10**30)
    (None, 1775696615.0, None)
    """
    at = None if value is None else moment(value)
    return at if at is not None and EARLIEST <= at <= LATEST else None


def recorded_id(value: object) -> str:
    """An id as a program wrote it; empty where there is none, and where somebody masked it: a mask names many things.

    >>> recorded_id("msg_01"), recorded_id("REDACTED"), recorded_id("msg_[redacted]"), recorded_id("********"), recorded_id(None)
    ('msg_01', '', '', '', '')
    """
    text = str(value or "")
    return "" if "redacted" in text.lower() or (len(text) > 2 and not text.strip("*xX")) else text


def dollars(value: object) -> float | None:
    """A cost in dollars as a program wrote it down, a number or its text; None for 0, which they write where they know no
    price.

    >>> dollars(0.0538), dollars("0.0538"), dollars(0), dollars(None), dollars(float("nan")), dollars(10**400)
    (0.0538, 0.0538, None, None, None, None)
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value <= MOST_USD else None
