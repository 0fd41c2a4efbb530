"""The routing key of a request (`CacheKey`): derived, so that a conversation comes back to the machine that has its prefix.

A `prompt_cache_key` is shared by all conversations that share a head. Above about 15 requests a minute of one key OpenAI
lets other machines answer, so a busy head is spread over as many keys as it takes; a conversation and its branches keep
theirs. From gpt-5.6 on the key chooses no machine and only separates caches, so none is sent
(https://developers.openai.com/api/docs/guides/prompt-caching). A session id or an affinity header is one conversation's.
The key is a hash: it holds no text, path or name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.models import Model
from contextkit.prompt.prompt import PromptLayout

PER_KEY = 15
"""Requests a minute that one machine answers for one key (prompt caching guide)."""


AUTO = "auto"
"""What stands for `CacheKey()`."""


KEY_FIELD = "prompt_cache_key"


_HEAD = 1
"""Level whose end is the end of the head, among `level_ends`."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """A key to be derived: `prompt_cache_key=CacheKey(requests_per_minute=60)`, or `"auto"` for one machine's worth."""

    requests_per_minute: int = PER_KEY
    """Calls a minute, of all conversations that share a head, at the busiest."""

    def __post_init__(self) -> None:
        """Raises `UsageError` for what is no number from 1."""
        if type(self.requests_per_minute) is not int or self.requests_per_minute < 1:
            raise UsageError(
                f"requests_per_minute={self.requests_per_minute!r}: how many calls a minute share a head, 1 or more"
            )

    @property
    def n_shards(self) -> int:
        """Keys over which a head is spread.

        >>> CacheKey(60).n_shards, CacheKey(61).n_shards
        (4, 5)
        """
        return -(-self.requests_per_minute // PER_KEY)


@dataclass(frozen=True, slots=True)
class Affinity:
    """Where a derived key goes."""

    key: CacheKey
    """What was asked for."""
    name: str
    """Field of the body, or header."""
    is_header: bool
    """Which of the two."""


@dataclass(frozen=True, slots=True)
class Routing:
    """What one request says of the machine it wants, and why."""

    fields: Mapping[str, Json] = field(default_factory=dict)
    """Body fields."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Extra headers."""
    key: str | None = None
    """The key, None where none is sent."""
    why: str = ""
    """In words."""


def split(
    params: Mapping[str, Any], headers: Mapping[str, Any]
) -> tuple[Affinity | None, dict[str, Json], Mapping[str, str]]:
    """Parameters and headers without the key that is to be derived, and that key."""
    asked = {name: _requested_key(value) for name, value in params.items() if _is_requested(name, value)}
    above = {name: _requested_key(value) for name, value in headers.items() if _is_requested("", value)}
    found = [Affinity(key, name, False) for name, key in asked.items()] + [
        Affinity(key, name, True) for name, key in above.items()
    ]
    plain = {name: value for name, value in params.items() if name not in asked}
    return (found[0] if found else None), plain, {name: value for name, value in headers.items() if name not in above}


def routing(provider: Any, layout: PromptLayout, conversation: bytes) -> Routing:
    """Return how the next request of `conversation` (the identity of its log) finds the machine that has its prefix."""
    affinity, model = getattr(provider, "affinity", None), provider.model
    if affinity is None:
        own = provider.params.get(KEY_FIELD)
        return Routing(key=None if own is None else str(own))
    if affinity.name == KEY_FIELD and is_needless(model):
        return Routing(
            why=f"none: {model.name} finds caches by prefix, and another key would only keep conversations apart"
        )
    key, why = _derived(affinity, layout, conversation)
    sent = {affinity.name: key}
    return Routing(headers=sent, key=key, why=why) if affinity.is_header else Routing(fields=sent, key=key, why=why)


def is_needless(model: Model) -> bool:
    """Return whether a key chooses no machine: OpenAI's models from gpt-5.6 on."""
    return model.provider == "openai" and model.cache == "breakpoints"


def _derived(affinity: Affinity, layout: PromptLayout, conversation: bytes) -> tuple[str, str]:
    end = layout.columns.level_ends[_HEAD]
    if affinity.name != KEY_FIELD:
        return _hash(conversation), f"{affinity.name}: this conversation's and its branches'"
    if not end:
        return _hash(conversation), "there is no head to share, so it is this conversation's and its branches'"
    n = affinity.key.n_shards
    shard = int.from_bytes(blake2b(conversation, digest_size=8).digest()) % n
    key = _hash(layout.columns.digests[end - 1], shard.to_bytes(4))
    spread = f", shard {shard + 1} of {n} for {affinity.key.requests_per_minute} calls a minute" if n > 1 else ""
    return key, f"shared with conversations that have this head{spread}"


def _hash(*facts: bytes) -> str:
    return f"ck-{blake2b(b''.join(facts), digest_size=12).hexdigest()}"


def _is_requested(name: str, value: object) -> bool:
    return isinstance(value, CacheKey) or (name == KEY_FIELD and value == AUTO)


def _requested_key(value: Any) -> CacheKey:
    return value if isinstance(value, CacheKey) else CacheKey()
