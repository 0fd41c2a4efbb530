"""Requests as the token ids an engine would see.

Takes a parsed request, gives integers, the same ones on every machine and whatever tokenizer is installed; knows
nothing of caches.

No chat template and no vocabulary of a model is at hand, so both are stood in for. Template: what it reads besides the
messages (`_READ_BY_TEMPLATE`), then tools and messages in order; a boundary token and the role open a message, a token
for its key opens each text in it, a boundary token ends the prompt. Nulls, ids and what is empty are not rendered, so a
reply that comes back with or without an SDK's extra fields gives the tokens it was generated as. Vocabulary: a run of
up to five letters with the blank before it, up to three digits, two signs, four blanks, three bytes of other scripts;
its id is a hash of those bytes. An image, a file or a sound is `OPENAI_IMAGE` equal tokens. Assumed, all of it: a count
is near a real tokenizer's, and never equal to it; where two prompts part is exact to the token.

What the local provider must be told to bill a request: how it is understood, which cache it meets, what is kept of
it.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.ledger.calls import Outline, Tokens
from contextkit.log.content import OPENAI_IMAGE
from contextkit.models import Model
from contextkit.prompt.normal_form import VERBATIM
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.codec import Codec
from contextkit.providers.provider import Parsed
from contextkit.providers.scripted import Part
from contextkit.providers.validation import ParsedRequest, ReceivedRequest

_PIECE = re.compile(rb" ?[A-Za-z]{1,5}|[0-9]{1,3}| ?[!-/:-@\[-`{-~]{1,2}|[\x80-\xff]{1,3}|\s{1,4}|[\x00-\x1f\x7f]")
_READ_BY_TEMPLATE = ("chat_template", "chat_template_kwargs", "reasoning_effort", "documents")
"""Fields of a body that enter a prompt besides its tools and messages."""
_UNSAID = frozenset({"type", "id", "call_id", "tool_call_id", "status", "logprobs", "annotations", "encrypted_content"})
"""Keys whose values no template renders."""
_THINGS = frozenset({"image_url", "url", "file_url", "file_data", "data"})
"""Keys under which an image, a file or a sound stands."""


@lru_cache(maxsize=65_536)
def _name(piece: bytes) -> int:
    """A number for a token; never negative, since engines' models give negative ones to tokens nobody names."""
    return int.from_bytes(blake2b(piece, digest_size=4).digest()) >> 1


_BOUNDARY = _name(b"\0message")
"""Stands between two messages, ends a prompt, and is the last token of a reply."""


def text_ids(text: str) -> array[int]:
    """The tokens of a text.

    >>> len(text_ids("You are careful.")), text_ids("You are careful.")[:2] == text_ids("You are")
    (5, True)
    """
    return array("i", map(_name, _PIECE.findall(text.encode("utf-8", "surrogatepass"))))


def prompt_ids(layout: PromptLayout, params: Mapping[str, Json]) -> array[int]:
    """The tokens of a request."""
    read = {name: params[name] for name in _READ_BY_TEMPLATE if params.get(name) is not None}
    head = text_ids(canonical(read, sort=True).decode()) if read else array("i")
    return head + reply_ids(layout)


def reply_ids(layout: PromptLayout) -> array[int]:
    """The tokens of tools and messages, a boundary behind them."""
    ids, columns = array("i"), layout.columns
    for index in range(layout.n):
        if columns.roles[index]:
            ids.append(_BOUNDARY)
            ids.extend(text_ids(columns.roles[index]))
        ids.extend(_block_ids(columns.body(index)))
    ids.append(_BOUNDARY)
    return ids


@lru_cache(maxsize=16_384)
def _block_ids(body: bytes) -> array[int]:
    """The tokens of a block; remembered, since a conversation says it again with every call."""
    ids = array("i")
    for piece in _leaves(parse(body), ""):
        ids.extend(piece)
    return ids


def _leaves(value: Json, key: str) -> Iterator[array[int]]:
    return _WALKS[type(value)](value, key)


def _of_dict(value: dict[str, Json], key: str) -> Iterator[array[int]]:
    if key in VERBATIM:  # what an author or a model ordered: rendered as it stands
        yield from _of_text(canonical(value).decode(), key)
        return
    for name, item in value.items():
        if name not in _UNSAID:
            yield from _leaves(item, name)


def _of_list(value: list[Json], key: str) -> Iterator[array[int]]:
    for item in value:
        yield from _leaves(item, key)


def _of_text(value: str, key: str) -> Iterator[array[int]]:
    if key in _THINGS:
        yield array("i", [_name(b"\0thing" + value.encode("utf-8", "surrogatepass"))]) * OPENAI_IMAGE
    elif value:
        yield array("i", [_name(b"\0key" + key.encode("utf-8", "surrogatepass"))]) + text_ids(value)


def _of_nothing(value: None, key: str) -> Iterator[array[int]]:
    return iter(())


_WALKS: dict[type, Callable[[Json, str], Iterator[array[int]]]] = {
    dict: _of_dict,
    list: _of_list,
    str: _of_text,
    type(None): _of_nothing,
    **dict.fromkeys((int, float, bool), lambda value, key: _of_text(canonical(value).decode(), key)),
}


@dataclass(frozen=True, slots=True)
class ReplySize:
    """The size of a reply."""

    n_tokens: int
    """All of it."""
    n_thinking: int
    """The thinking in it."""
    ids: array[int]
    """Its tokens where they have names, else none."""


class Books(Protocol):
    """One way to bill."""

    def adapted(self, codec: Codec) -> Codec:
        """The endpoint as it is spoken here."""
        ...

    def provider(self, codec: Codec, model: Model) -> str:
        """What the ledger calls whoever bills."""
        ...

    def parse_request(self, codec: Codec, received: ReceivedRequest) -> tuple[Model, Parsed]:
        """A request body; raises `UnknownModel` or `UnreadableRequest`."""
        ...

    def cache_prompt(self, codec: Codec, request: ParsedRequest) -> Any:
        """What the cache is asked with."""
        ...

    def cache(self, codec: Codec, request: ParsedRequest) -> PrefixCache[Any]:
        """The cache it is asked of."""
        ...

    def reply_size(self, codec: Codec, request: ParsedRequest, parts: tuple[Part, ...]) -> ReplySize:
        """What a reply comes to."""
        ...

    def ended(self, cache: PrefixCache[Any], lease: Lease, reply_size: ReplySize, output: int, now: float) -> Usage:
        """The response is complete: the whole bill."""
        ...

    def dropped(self, cache: PrefixCache[Any], lease: Lease, now: float) -> Usage:
        """The response never began: the bill."""
        ...

    def recorded(
        self, session: str, request: ParsedRequest, cache_prompt: Any, reply_size: ReplySize | None
    ) -> Outline | Tokens:
        """What the ledger keeps of the prompt."""
        ...

    def billed(self, lease: Lease) -> Callable[[Json], dict[str, Json]]:
        """OpenAI's counters → the fields of a response that tell the bill."""
        ...

    def reset(self) -> None:
        """Forget everything."""
        ...
