"""`Content-Encoding`: decodes compressed HTTP bodies, never into more memory than the caller allows.

A few kilobytes of gzip can decode to gigabytes. The limit is therefore checked while decoding, on the output of every
coding. Codings (RFC 9110, section 8.4.1): `gzip` (also `x-gzip`), `deflate` (with zlib's header as the RFC demands, or
raw as some senders write it), `br`, `zstd` and `identity`, in any letter case; a list such as `gzip, br` is decoded
from its last member to its first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import isclass
from typing import Any

from contextkit.errors import MissingExtra

MAX_CODINGS = 5
"""Codings that one body may be wrapped in; more are refused, as nobody sends them in good faith."""
_PIECE_BYTES = 1 << 16
"""Output that one step produces at most, and input that one step of `Decoder.feed` takes at most."""
_ZSTD_STEP_BYTES = 256
"""Input that one step gives zstandard, whose decoder does not limit its output: 64 blocks, of 128 KB each at most."""
_ZSTD_WINDOW_BYTES = 1 << 23
"""The largest window that a zstd-coded body may ask for (RFC 9659, section 3)."""


class UndecodableBody(Exception):
    """A body cannot be decoded.

    The text says why: unknown coding, missing library, corrupt, incomplete, or over the limit.
    """


class OverLimit(UndecodableBody):
    """The decoded body is larger than the limit."""


class Decoder:
    """Decodes one body piece by piece: `feed` what arrives, then `finish`."""

    __slots__ = ("_codings", "_left", "_max_bytes")

    def __init__(self, encoding: str, max_bytes: int) -> None:
        """`encoding` is the header's value, empty for none. Raises `UndecodableBody` for what cannot be decoded here."""
        self._codings = [_CODINGS[name]() for name in reversed(codings_of(encoding))]
        self._max_bytes = max_bytes
        self._left = [max_bytes] * (len(self._codings) + 1)

    def feed(self, data: bytes) -> bytes:
        """The decoded bytes that `data` completes. Raises `OverLimit`, or `UndecodableBody` for what is corrupt."""
        if not self._codings:
            self._count(0, len(data))
            return data
        return b"".join(self._through(0, data))

    def finish(self) -> None:
        """Raises `UndecodableBody` if the body ended before its codings did."""
        if not all(coding.is_complete for coding in self._codings):
            raise UndecodableBody("incomplete")

    def _through(self, index: int, data: bytes) -> Iterator[bytes]:
        """`data` through all codings from `index` on; what is yielded is counted before the next step produces more."""
        if index == len(self._codings):
            yield data
            return
        for piece in self._codings[index].decode(data):
            self._count(index, len(piece))
            yield from self._through(index + 1, piece)

    def _count(self, index: int, n_bytes: int) -> None:
        self._left[index] -= n_bytes
        if self._left[index] < 0:
            raise OverLimit(f"larger than {self._max_bytes:,} bytes when decoded")


def codings_of(encoding: str) -> list[str]:
    """The codings of a header, in the order they were applied, without `identity`.

    Raises `UndecodableBody` for an unknown one.

    >>> codings_of("X-GZip, identity, BR")
    ['gzip', 'br']
    """
    names = [name.strip().lower() for name in encoding.split(",")]
    named = [_ALIASES.get(name, name) for name in names if name not in ("", "identity")]
    if len(named) > MAX_CODINGS:
        raise UndecodableBody(f"{len(named)} codings, more than {MAX_CODINGS}")
    if any(name not in _CODINGS for name in named):
        raise UndecodableBody("unknown coding")
    return named


def decoded(body: bytes, encoding: str, max_bytes: int, *, is_partial: bool = False) -> bytes:
    """`body` decoded. `is_partial` accepts a body whose end is missing, and gives what came before it.

    Raises `UndecodableBody` if it is corrupt or incomplete, `OverLimit` beyond `max_bytes` of output, which is never
    held in memory.

    >>> decoded(zlib.compress(b"hello"), "deflate", 100)
    b'hello'
    """
    decoder = Decoder(encoding, max_bytes)
    pieces = [decoder.feed(body[start : start + _PIECE_BYTES]) for start in range(0, len(body), _PIECE_BYTES)]
    if not is_partial:
        decoder.finish()
    return b"".join(pieces)


# Codings
# ------------------------------------------------------------------------------------------------------------------


class _Zlib:
    """gzip (any number of members) and deflate."""

    __slots__ = ("_is_empty", "_is_gzip", "_start", "_state")

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip, self._is_empty = is_gzip, True
        self._start = b""
        self._state: Any = zlib.decompressobj(zlib.MAX_WBITS | 16) if is_gzip else None

    @property
    def is_complete(self) -> bool:
        """Return whether the last member has ended; an empty body is complete."""
        return self._is_empty or (self._state is not None and bool(self._state.eof))

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Pieces of output."""
        self._is_empty = self._is_empty and not data
        if self._state is None:
            self._start += data
            if len(self._start) < 2:
                return
            data, self._start = self._start, b""
            self._state = zlib.decompressobj(zlib.MAX_WBITS if _has_zlib_header(data) else -zlib.MAX_WBITS)
        while data:
            if self._state.eof:
                data = data.lstrip(b"\0")  # padding between members, as gzip(1) allows
                if not data:
                    return
                if not self._is_gzip:
                    raise UndecodableBody("corrupt")
                self._state = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                piece = self._state.decompress(data, _PIECE_BYTES)
            except zlib.error:
                raise UndecodableBody("corrupt") from None
            data = self._state.unused_data if self._state.eof else self._state.unconsumed_tail
            if piece:
                yield piece
            elif not data:
                return


def _has_zlib_header(data: bytes) -> bool:
    """CM is 8 and the check of the two bytes is right (RFC 1950, section 2.2)."""
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0


class _Brotli:
    """`br`, by `brotli` or `brotlicffi` from 1.2 on: older ones cannot limit their output."""

    __slots__ = ("_is_empty", "_process", "_state")

    def __init__(self) -> None:
        self._state = _first_of("brotli", ("brotli", "Decompressor"), ("brotlicffi", "Decompressor"))()
        self._process = getattr(self._state, "process", None) or self._state.decompress
        self._is_empty = True
        try:
            self._process(b"", output_buffer_limit=_PIECE_BYTES)
        except TypeError:
            raise UndecodableBody(
                str(MissingExtra("brotli before 1.2 cannot limit its output; br", "brotli"))
            ) from None

    @property
    def is_complete(self) -> bool:
        """Return whether the stream has ended."""
        return self._is_empty or bool(self._state.is_finished())

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Pieces of output."""
        self._is_empty = self._is_empty and not data
        try:
            # A decoder that accepts more input may hold output still, so it is asked until it gives none.
            while data or not self._state.is_finished():
                piece = self._process(data, output_buffer_limit=_PIECE_BYTES)
                data = b""
                if piece:
                    yield piece
                elif self._state.is_finished() or self._state.can_accept_more_data():
                    return
        except UndecodableBody:
            raise
        except Exception:  # noqa: BLE001 - `brotli.error` and `brotlicffi.error` have no common base
            raise UndecodableBody("corrupt") from None


class _Zstd:
    """`zstd`, by the standard library (Python 3.14) or `zstandard`; any number of frames."""

    __slots__ = ("_is_empty", "_make", "_state")

    def __init__(self) -> None:
        self._make = _zstd_maker()
        self._state: Any = self._make()
        self._is_empty = True

    @property
    def is_complete(self) -> bool:
        """Return whether the last frame has ended."""
        return self._is_empty or bool(self._state.eof)

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Pieces of output."""
        self._is_empty = self._is_empty and not data
        try:
            for start in range(0, len(data), _ZSTD_STEP_BYTES):
                rest = data[start : start + _ZSTD_STEP_BYTES]
                while rest:
                    if self._state.eof:
                        self._state = self._make()
                    piece = self._state.decompress(rest)
                    rest = bytes(self._state.unused_data) if self._state.eof else b""
                    if piece:
                        yield piece
        except Exception:  # noqa: BLE001 - the two libraries' errors have no common base
            raise UndecodableBody("corrupt") from None


def _zstd_maker() -> Callable[[], Any]:
    """A new decompressor of one frame, whichever library is here."""
    try:
        zstd = import_module("compression.zstd")
    except ImportError:
        pass
    else:
        options = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_BYTES.bit_length() - 1}
        return lambda: zstd.ZstdDecompressor(options=options)
    made: Any = _first_of("zstd", ("zstandard", "ZstdDecompressor"))
    return lambda: made(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()


def _first_of(extra: str, *names: tuple[str, str]) -> Callable[..., Any]:
    """The first class of these that is installed. Raises `UndecodableBody` naming the extra that brings one."""
    for module, name in names:
        try:
            value = getattr(import_module(module), name, None)
        except ImportError:
            continue
        if isclass(value):
            return value
    raise UndecodableBody(str(MissingExtra(f"Content-Encoding {_CODING_OF.get(extra, extra)}", extra)))


_CODING_OF = {"brotli": "br"}
"""Extra → the coding that it decodes, where that has another name."""
MOST_BYTES = 1 << 26
"""Bytes of a body, decoded, that are looked at: 64 MB, twice what Anthropic takes."""
_CODINGS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: _Zlib(is_gzip=True),
    "deflate": lambda: _Zlib(is_gzip=False),
    "br": _Brotli,
    "zstd": _Zstd,
}
_ALIASES = {"x-gzip": "gzip", "x-deflate": "deflate", "brotli": "br", "x-zstd": "zstd", "x-br": "br"}
