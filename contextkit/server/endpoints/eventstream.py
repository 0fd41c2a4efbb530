"""AWS event streams: binary frames, each with typed headers and two checksums.

Takes a name and JSON, gives the bytes botocore reads (botocore 1.44, eventstream.py).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

from contextkit.canonical import Json, canonical

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_STRING = 7
"""Type of a header whose value is text."""


def frame(kind: str, payload: Mapping[str, Json], message: str = "event") -> bytes:
    """One message: an `event`, or an `exception`, of a kind."""
    told = {":message-type": message, f":{message}-type": kind, ":content-type": "application/json"}
    headers = b"".join(_header(name, value) for name, value in told.items())
    body = canonical(payload)
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    written = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return written + struct.pack("!I", zlib.crc32(written))


def _header(name: str, value: str) -> bytes:
    return struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", _STRING, len(value)) + value.encode()
