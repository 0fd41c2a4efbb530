"""A call made in another thread shows the line of the caller's that made it, or that waits for it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from contextkit import watch
from contextkit.server import LocalServer
from tests.watcher.talk import HAZARDS, HEAD, Talk, Told
from tests.watcher.test_watch import claude, place_of


def ask(client: Any, talk: Talk) -> None:
    client.messages.create(**talk.claude())  # a function


async def _in_a_thread(client: Any, talk: Talk) -> None:
    await asyncio.to_thread(ask, client, talk)


async def _in_an_executor(client: Any, talk: Talk) -> None:
    await asyncio.get_running_loop().run_in_executor(None, ask, client, talk)


async def _from_a_pool(client: Any, talk: Talk) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ask, client, talk).result()


async def _method_in_a_thread(client: Any, talk: Talk) -> None:
    await asyncio.to_thread(client.messages.create, **talk.claude())  # a method


async def _method_in_an_executor(client: Any, talk: Talk) -> None:
    await asyncio.get_running_loop().run_in_executor(None, partial(client.messages.create, **talk.claude()))  # a method


async def _methods_gathered(client: Any, talk: Talk) -> None:
    await asyncio.gather(asyncio.to_thread(client.messages.create, **talk.claude()), asyncio.sleep(0.01))  # a method


async def _method_from_a_pool(client: Any, talk: Talk) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(client.messages.create, **talk.claude()).result()


async def _method_as_a_thread(client: Any, talk: Talk) -> None:
    thread = threading.Thread(target=client.messages.create, kwargs=talk.claude())
    thread.start()
    thread.join()


WAYS = [
    (_in_a_thread, "# a function"),
    (_in_an_executor, "# a function"),
    (_from_a_pool, "# a function"),
    (_method_in_a_thread, "# a method"),
    (_method_in_an_executor, "# a method"),
    (_methods_gathered, "# a method"),
    (_method_from_a_pool, ""),
    (_method_as_a_thread, ""),
]


@pytest.mark.parametrize(("way", "word"), WAYS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_call_in_a_thread_shows_the_line_that_knows_of_it(
    way: Any, word: str, server: LocalServer, told: Told
) -> None:
    client, talk = watch(claude(server), on_break=told, hazards=HAZARDS), Talk()

    async def talked() -> None:
        await way(client, talk)
        for number in range(5):
            talk.head = f"{number} {HEAD}"
            await way(client, talk)

    asyncio.run(talked())
    shown = {place_of(found).caller for found in told if found.detector == "guard"}
    places = [caller.rpartition(":") for caller in shown if caller]
    lines = Path(__file__).read_text("utf-8").splitlines()
    assert all(file == __file__ and word and word in lines[int(line) - 1] for file, _, line in places)
    assert bool(places) == bool(word)  # whom a pool or a thread has a client's own method from is not to be known
    client.close()
