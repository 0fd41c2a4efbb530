"""The two ends of the proxy's load test, each in a process of its own: a provider that streams, and agents that listen.

`python -m tests.benchmarks.proxy_load upstream` prints its port and serves until its input closes. `… clients PORT
STREAMS SECONDS [faults]` prints one JSON line: latency of every event and of every first byte, and what was wrong. With
`faults` every tenth stream is killed by the provider half way, and another tenth of the clients reads nothing for half
of the time; neither counts in the latencies.

An event is 300 bytes: a time stamp of the machine's one monotonic clock, a number, and bytes that follow from the
number. A client knows every byte that must come."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from array import array
from dataclasses import dataclass
from typing import cast

EVENT_BYTES, PER_SECOND = 300, 20
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nx-sent: %020d\r\n\r\n"
START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_%d","model":"claude-sonnet-5-5","usage":'
    b'{"input_tokens":9,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":1}}}\n\n'
)
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def event(number: int, sent: int) -> bytes:
    """Event `number`; the padding is another one each time."""
    padding = b"%016x" % (number * 2654435761) * 20
    return (b'data: {"sent":%020d,"n":%08d,"p":"' % (sent, number) + padding)[: EVENT_BYTES - 4] + b'"}\n\n'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Upstream(asyncio.Protocol):
    """Answers a request with events at an even pace, as long as its header `x-seconds` says."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.heard = b""

    def data_received(self, data: bytes) -> None:
        self.heard += data
        head, end, body = self.heard.partition(b"\r\n\r\n")
        if not end or len(body) < int(_header(head, b"content-length")):
            return
        self.heard = b""
        self.transport.write(HEAD % time.monotonic_ns() + chunk(START % random.getrandbits(60)))
        self.cut_at = int(_header(head, b"x-cut-at"))
        self.left, self.number = round(float(_header(head, b"x-seconds")) * PER_SECOND), 0
        self.due = asyncio.get_running_loop().time() + random.random() / PER_SECOND
        self._later()

    def _later(self) -> None:
        asyncio.get_running_loop().call_at(self.due, self._say)

    def _say(self) -> None:
        if self.transport.is_closing():
            return
        if self.number == self.cut_at:
            self.transport.abort()
            return
        if self.number == self.left:
            self.transport.write(chunk(STOP) + b"0\r\n\r\n")
            return
        self.transport.write(chunk(event(self.number, time.monotonic_ns())))
        self.number += 1
        self.due += 1 / PER_SECOND
        self._later()


def _header(head: bytes, name: bytes) -> bytes:
    line = next(line for line in head.split(b"\r\n") if line.lower().startswith(name + b":"))
    return line.partition(b":")[2].strip()


class Heard:
    """What all clients heard."""

    def __init__(self) -> None:
        self.events, self.firsts = array("q"), array("q")
        self.n_bytes = self.cut = self.changed = self.killed = self.slow = 0


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is to go wrong with a stream."""

    is_killed: bool = False
    """The provider stops half way."""
    is_slow: bool = False
    """The client reads nothing for half of the time."""


async def listen(port: int, number: int, seconds: float, heard: Heard, trouble: Trouble) -> None:
    """One stream, every byte of it checked."""
    await asyncio.sleep(random.random())
    said = [{"role": "user", "content": f"stream {number}"}]
    body = json.dumps({"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": said}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nx-seconds: %f\r\nx-cut-at: %d\r\n"
    n_events = round(seconds * PER_SECOND)
    writer.write(
        head % (seconds, n_events // 2 if trouble.is_killed else -1) + b"content-length: %d\r\n\r\n" % len(body) + body
    )
    apart = Heard() if trouble != Trouble() else heard
    try:
        await asyncio.sleep(seconds / 2 if trouble.is_slow else 0)
        await _hear(reader, n_events, apart)
        heard.slow += trouble.is_slow and not apart.changed
    except (asyncio.IncompleteReadError, ConnectionError):
        is_meant = trouble.is_killed and not apart.changed and len(apart.events) == n_events // 2
        heard.killed, heard.cut = heard.killed + is_meant, heard.cut + (not is_meant)
    finally:
        writer.close()


async def _hear(reader: asyncio.StreamReader, n_events: int, heard: Heard) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    heard.firsts.append(time.monotonic_ns() - int(_header(head, b"x-sent")))
    await _chunk(reader)
    for number in range(n_events):
        data = await _chunk(reader)
        now, sent = time.monotonic_ns(), int(data[14:34])
        heard.events.append(now - sent)
        heard.n_bytes += len(data)
        heard.changed += data != event(number, sent)
    heard.changed += await _chunk(reader) != STOP
    heard.changed += await _chunk(reader) != b""


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readuntil(b"\r\n"), 16)
    return (await reader.readexactly(size + 2))[:-2]


async def clients(port: int, streams: int, seconds: float, *, has_faults: bool) -> None:
    heard, plain = Heard(), Trouble()
    kinds = {3: Trouble(is_killed=True), 7: Trouble(is_slow=True)} if has_faults else {}
    await asyncio.gather(
        *(listen(port, number, seconds, heard, kinds.get(number % 10, plain)) for number in range(streams))
    )
    told = {name: getattr(heard, name) for name in ("cut", "changed", "killed", "slow")}
    print(json.dumps({**told, "events": list(heard.events), "firsts": list(heard.firsts), "bytes": heard.n_bytes}))


async def upstream() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    role, *values = sys.argv[1:]
    if role == "upstream":
        asyncio.run(upstream())
    else:
        asyncio.run(clients(int(values[0]), int(values[1]), float(values[2]), has_faults="faults" in values))
