"""A pin shorter than the hour that is paid for, and one as long."""

MARKER = {"type": "ephemeral", "ttl": "1h"}


class Router:
    STICKY_TTL_SECONDS = 300  # expect: CKR02

    def pin(self, store, session, host):
        store.put(session, host, affinity_ttl=600)  # expect: CKR02


class Steady:
    STICKY_TTL_SECONDS = 3600
    REQUEST_TIMEOUT = 300

    def pin(self, store, session, host):
        store.put(session, host, affinity_ttl=self.STICKY_TTL_SECONDS)
