"""Everything the local provider remembers: the time, its caches, what it said and what it billed.

Knows no wire and no socket; `reset` brings it back to the moment it was made.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from threading import RLock
from typing import Any

from contextkit.engines.registry import Engine
from contextkit.errors import UnreadableRequest
from contextkit.ledger.ledger import Ledger
from contextkit.providers.anthropic.blocks import BillingHeader
from contextkit.providers.rendered_blocks import memoize_blocks
from contextkit.server.billing import Books
from contextkit.server.billing_hosted import Hosted
from contextkit.server.billing_selfhosted import SelfHosted
from contextkit.server.conversations import LedgerConversations
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.diagnostics import Fingerprints
from contextkit.server.endpoints.gemini_contents import StoredContents
from contextkit.server.endpoints.notices import Notices
from contextkit.server.endpoints.openai_stored import Stored
from contextkit.server.endpoints.signatures import Signatures
from contextkit.server.scripted import Replies, ReplySource


class Clock:
    """The time caches live by: it runs, or stands until it is moved.

    >>> clock = Clock(1000.0, is_frozen=True)
    >>> clock.advance(5)
    >>> clock.now()
    1005.0
    """

    def __init__(self, start: float | None = None, *, is_frozen: bool = False) -> None:
        """`start` in seconds since 1970, None for now."""
        self._start = start
        self.is_frozen = is_frozen
        """Whether only `advance` and `set` move it."""
        self.reset()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._base + (0.0 if self.is_frozen else time.monotonic() - self._made)

    def advance(self, seconds: float) -> None:
        """Move forward. Raises `UnreadableRequest` for what is not a finite number of at least 0."""
        if not math.isfinite(seconds) or seconds < 0:
            raise UnreadableRequest(
                "advance_seconds", "a finite number, 0 or more: time does not go back, reset the server instead"
            )
        self._base += seconds

    def set(self, now: float) -> None:
        """Move forward to `now`. Raises `UnreadableRequest` where that lies behind."""
        if not math.isfinite(now) or now < self.now():
            raise UnreadableRequest(
                "now", "a time that has not passed yet: time does not go back, reset the server instead"
            )
        self._base += now - self.now()

    def reset(self) -> None:
        """Back to the start."""
        self._base = time.time() if self._start is None else self._start
        self._made = time.monotonic()


REMEMBERED_BYTES = 1 << 28
"""Blocks kept so that a conversation that comes again is not cut again: a quarter of a gigabyte, hundreds of long ones.
"""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was uploaded."""

    id: str
    file_name: str
    media_type: str
    purpose: str
    """As OpenAI's client names it; empty for Anthropic's."""
    created_at: int
    """Seconds since 1970."""
    content: bytes


class State:
    """What one server remembers. Hold `lock` while reading more than one thing of it."""

    def __init__(
        self,
        clock: Clock,
        replies: ReplySource | Iterable[Any] | None = None,
        engine: Engine | None = None,
        *,
        is_strict: bool = False,
        billing_header: BillingHeader = "neutral",
        mixed_lifetimes: bool | None = None,
    ) -> None:
        """`engine` bills the OpenAI-compatible endpoints where it is given.

        `is_strict` refuses unknown fields and unknown or retired models; `billing_header` as in
        `providers/anthropic/blocks.py`, `mixed_lifetimes` as in `reference_cache`.
        """
        memoize_blocks(REMEMBERED_BYTES)
        self.lock = RLock()
        self.clock = clock
        self.replies = Replies(replies)
        self.is_strict = is_strict
        self._hosted = Hosted(billing_header, is_strict=is_strict, mixed_lifetimes=mixed_lifetimes)
        self._books: dict[str, Books] = {"openai": SelfHosted(engine)} if engine else {}
        self.reset()

    def reset(self) -> None:
        """Forget caches, ledger, waiting scripts and counters; the clock goes back to its start."""
        with self.lock:
            self.clock.reset()
            if getattr(self, "ledger", None) is not None:
                self.replies.clear()
            self.ledger = Ledger()
            self.conversations = LedgerConversations()
            self.signatures = Signatures()
            self.fingerprints = Fingerprints()
            self.notices = Notices()
            self.paused: set[bytes] = set()
            """Last blocks of turns that were paused: they may stand at the end of a request."""
            for books in (self._hosted, *self._books.values()):
                books.reset()
            self._stored: dict[str, Stored] = {}
            self._files: dict[tuple[str, str], dict[str, StoredFile]] = {}
            self.contents = StoredContents()
            """Gemini's cached contents."""
            self._counters: Counter[str] = Counter()

    def books(self, codec: Codec) -> Books:
        """Return the books of an endpoint."""
        return self._books.get(codec.provider, self._hosted)

    def stored(self, workspace: str) -> Stored:
        """Return the state of one workspace; others do not see it."""
        return self._stored.setdefault(workspace, Stored())

    def files(self, provider: str, workspace: str) -> dict[str, StoredFile]:
        """Files that were uploaded to one workspace of a provider, by id."""
        return self._files.setdefault((provider, workspace), {})

    def number(self, kind: str) -> int:
        """1, 2, 3, … for each kind."""
        self._counters[kind] += 1
        return self._counters[kind]
