"""What the proxy adds to a WebSocket of the Responses API: first event and each event, beside the same server without it.

    python -m tests.benchmarks.proxy_sockets

The server sends events of about 300 bytes every 10 ms, each with the time at which it was sent, over `n` sockets at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from contextkit.proxy.analysis import Watcher
from contextkit.proxy.proxy import Proxy
from contextkit.proxy.upstreams import Upstream

EVENTS, SECONDS, ROUNDS = 100, 0.01, 3
PADDING = "x" * 220


async def answer(wire: ServerConnection) -> None:
    """Answer each request with events that say when they were sent."""
    async for message in wire:
        name = json.loads(message)["input"]
        for number in range(EVENTS):
            kind = "response.completed" if number == EVENTS - 1 else "response.output_text.delta"
            event = {"type": kind, "n": number, "of": name, "at": time.perf_counter(), "delta": PADDING}
            await wire.send(json.dumps(event))
            await asyncio.sleep(SECONDS)


async def asked(url: str, delays: list[float], firsts: list[float]) -> None:
    """Ask on one socket, several times."""
    async with connect(f"{url.replace('http', 'ws')}/v1/responses", compression=None) as wire:
        for turn in range(ROUNDS):
            sent = time.perf_counter()
            await wire.send(
                json.dumps({"type": "response.create", "model": "gpt-6.1-sol", "input": f"turn {turn} " * 200})
            )
            for number in range(EVENTS):
                event = json.loads(await wire.recv())
                now = time.perf_counter()
                if number == 0:
                    firsts.append(now - sent)
                delays.append(now - event["at"])


async def measured(url: str, n: int) -> tuple[list[float], list[float]]:
    """Delays of events and of first events, in seconds."""
    delays, firsts = list[float](), list[float]()
    await asyncio.gather(*(asked(url, delays, firsts) for _ in range(n)))
    return delays, firsts


async def main() -> None:
    """Print both, for one socket and for five."""
    async with serve(answer, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with TemporaryDirectory() as folder:
            watcher = await Watcher.start(str(Path(folder, "runs.jsonl")), lambda report: None)
            proxy = Proxy(Upstream(f"http://127.0.0.1:{port}"), observer=watcher)
            await proxy.start()
            for n in (1, 5):
                plain = await measured(f"http://127.0.0.1:{port}", n)
                through = await measured(proxy.url, n)
                for what, one, other in zip(("event", "first event"), plain, through, strict=True):
                    added = (median(other) - median(one)) * 1e3
                    tail = (quantiles(other, n=100)[98] - quantiles(one, n=100)[98]) * 1e3
                    print(f"{n} sockets, {what}: {added:.2f} ms longer (p50), {tail:.2f} ms (p99)")
            await proxy.stop()
            await watcher.close()


if __name__ == "__main__":
    asyncio.run(main())
