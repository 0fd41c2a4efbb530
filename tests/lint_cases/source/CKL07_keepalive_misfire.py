"""A keep-alive as long as the lifetime."""

MARK = {"type": "ephemeral"}
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
