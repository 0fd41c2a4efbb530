"""Compressed bodies: every coding by every name, and a limit that holds while decoding."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from contextkit.content_encoding import Decoder, OverLimit, UndecodableBody, decoded

TEXT = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}' * 500
LIMIT = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "none": ("", bytes),
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstandard.compress),
    "twice": ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    "a list": ("zstd, identity, X-GZip", lambda data: gzip.compress(zstandard.compress(data))),
    "members": ("gzip", lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:])),
    "frames": ("zstd", lambda data: zstandard.compress(data[:99]) + zstandard.compress(data[99:])),
}


@pytest.mark.parametrize("name", CODINGS)
def test_a_body_is_decoded_whatever_its_coding_is_called_and_however_it_arrives(name: str) -> None:
    encoding, encode = CODINGS[name]
    body = encode(TEXT)
    assert decoded(body, encoding, LIMIT) == TEXT
    for step in (1, 1000, 1 << 20):
        decoder = Decoder(encoding, LIMIT)
        assert b"".join(decoder.feed(body[at : at + step]) for at in range(0, len(body), step)) == TEXT
        decoder.finish()


@pytest.mark.parametrize(
    "name", [name for name, (encoding, _) in CODINGS.items() if encoding.strip().lower() not in ("", "identity")]
)
def test_an_incomplete_or_corrupt_body_is_refused_and_a_partial_one_gives_what_came(name: str) -> None:
    encoding, encode = CODINGS[name]
    body = encode(TEXT)
    with pytest.raises(UndecodableBody):
        decoded(body[:-5], encoding, LIMIT)
    assert TEXT.startswith(decoded(body[:-5], encoding, LIMIT, is_partial=True))
    with pytest.raises(UndecodableBody):
        decoded(b"\xff\xfe" + body, encoding, LIMIT)
    with pytest.raises(OverLimit):
        decoded(body, encoding, len(TEXT) - 1)


@pytest.mark.parametrize("encoding", ["compress", "gzip, foo", "aes128gcm", ", ".join(["gzip"] * 6)])
def test_an_unknown_coding_is_refused(encoding: str) -> None:
    with pytest.raises(UndecodableBody):
        decoded(b"x", encoding, LIMIT)


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
def test_what_repeats_itself_is_decoded_to_its_end(name: str) -> None:
    encoding, pack = CODINGS[name]
    for n_bytes in (65_536, 98_273, 125_000, 1_000_003):
        body = (b'{"role":"user","content":"lorem ipsum dolor"},' * (n_bytes // 40 + 1))[:n_bytes]
        assert decoded(pack(body), encoding, 1 << 24) == body


BOMB = """
import gzip, resource, sys, zlib
from contextkit.content_encoding import OverLimit, decoded
encoding, limit = sys.argv[1], 16 << 20
body = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decoded(body, encoding, limit)
except OverLimit:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024))
"""


def bomb(encoding: str) -> bytes:
    """160 MB of zeros; 160 kB as gzip, less in the other codings."""
    brotli_made = brotli.Compressor(quality=1)  # what it makes of zeros is small at any quality
    deflate = zlib.compressobj(wbits=31 if "gzip" in encoding else -15)
    made = {"br": (brotli_made.process, brotli_made.finish)}.get(encoding, (deflate.compress, deflate.flush))
    if encoding.startswith("zstd"):
        zstd = zstandard.ZstdCompressor().compressobj()
        made = zstd.compress, zstd.flush
    chunk = bytes(1 << 20)
    packed = b"".join(made[0](chunk) for _ in range(160)) + made[1]()
    return gzip.compress(packed) if "," in encoding else packed


@pytest.mark.skipif(
    sys.platform == "win32", reason="the standard library of Windows does not tell a process's peak of memory"
)
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "zstd, gzip"])
def test_a_bomb_is_given_up_within_the_limit(encoding: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", BOMB, encoding], input=bomb(encoding), capture_output=True, check=True, timeout=120
    )
    assert int(process.stdout) < 64 << 20
