"""A keep-alive as long as the lifetime."""

import asyncio
import time

import anthropic

client = anthropic.Anthropic()
MARK = {"type": "ephemeral"}
PING_INTERVAL = 300
KEEPALIVE_SECONDS = 300  # expect: CKL07
CACHE_REFRESH_INTERVAL = 5 * 60  # expect: CKL07
KEEPALIVE_MINUTES = 5  # expect: CKL07
CACHE_KEEP_WARM_SECONDS = 240
REQUEST_TIMEOUT = 600
REFRESH_INTERVAL_MINUTES = 4


def mark(block):
    block["cache_control"] = MARK


class Keeper:
    def __init__(self):
        self.ping_interval = 200
        self.started = False


def plan(scheduler, ping):
    refresh_seconds = 300  # expect: CKL07
    scheduler.every(refresh_seconds, ping)


async def keep_open(ws):
    while True:
        await asyncio.sleep(PING_INTERVAL)
        await ws.ping()


def keep_warm(session):
    while session.is_open:
        time.sleep(5 * 60)  # expect: CKL07
        client.messages.create(model="claude-opus-4-5", max_tokens=1, system=session.system, messages=session.messages)


def poll(session):
    while session.is_open:
        time.sleep(5 * 60)
        session.messages += client.messages.create(model="claude-opus-4-5", max_tokens=900, messages=session.messages).content


def touch():
    client.messages.create(model="claude-opus-4-5", max_tokens=0, system=SYSTEM, messages=PING)


def at_night():
    client.messages.create(model="claude-opus-4-5", max_tokens=900, system=SYSTEM, messages=REPORT)


def schedule(scheduler):
    scheduler.add_job(touch, "interval", minutes=5)  # expect: CKL07
    scheduler.add_job(touch, "interval", minutes=4)
    scheduler.add_job(at_night, "interval", minutes=5)


class CacheWarmer:
    interval = 600  # expect: CKL07


class Poller:
    interval = 600
