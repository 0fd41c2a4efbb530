"""Several instances of one engine, and which of them a request goes to.

Takes requests and engines, gives hits; knows nothing of what the engines keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from zlib import crc32

from contextkit.engines.block_trace import BlockRequest
from contextkit.engines.trace_engines import Engine
from contextkit.errors import UsageError


class Fleet:
    """Instances behind a router."""

    def __init__(self, engines: Sequence[Engine], routing: str) -> None:
        """Raises `UsageError` for a routing there is not."""
        if routing not in ROUTINGS:
            raise UsageError(f"{routing!r} is no routing: use one of {', '.join(ROUTINGS)}")
        self.engines = engines
        self.served = [0] * len(engines)
        """Blocks each instance was asked for."""
        self.n_requests = 0
        self._route = ROUTINGS[routing]
        self._is_single = len(engines) == 1

    def admit(self, request: BlockRequest) -> int:
        """Send a request to its instance: how many leading blocks were there."""
        chosen = 0 if self._is_single else self._route(self, request)
        self.served[chosen] += len(request.ids)
        self.n_requests += 1
        return self.engines[chosen].admit(request.ids)

    @property
    def n_evicted(self) -> int | None:
        """Blocks all of them forgot to make room, None where they do not count."""
        counts = [engine.n_evicted for engine in self.engines]
        return None if None in counts else sum(count or 0 for count in counts)


def _round_robin(fleet: Fleet, request: BlockRequest) -> int:
    return fleet.n_requests % len(fleet.engines)


def _session(fleet: Fleet, request: BlockRequest) -> int:
    return crc32(request.session.encode()) % len(fleet.engines)


def _prefix(fleet: Fleet, request: BlockRequest) -> int:
    """Where most of it is; where several have as much, the one that served least."""
    hits = [engine.find(request.ids) for engine in fleet.engines]
    return max(range(len(hits)), key=lambda index: (hits[index], -fleet.served[index]))


ROUTINGS: Mapping[str, Callable[[Fleet, BlockRequest], int]] = MappingProxyType(
    {
        "round-robin": _round_robin,
        "session": _session,
        "prefix": _prefix,
    }
)
"""Name → index of the instance: in turn; by a hash of the session; where the longest prefix is."""
