"""How many tokens a block or a message is.

Takes provider JSON of any wire, gives a count: by o200k_base where its ranks are at hand, by size elsewhere, and says
which. Text counts; ids, type names, signatures and markers do not; pictures, documents and sound count by what they
show. Knows nothing of prompts or caches. Nothing is downloaded unless the environment says
`CONTEXTKIT_TIKTOKEN_DOWNLOAD=1`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import math
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path

from contextkit.canonical import Json
from contextkit.errors import NotSerialisable
from contextkit.facts.load import built_in_table
from contextkit.log.content import IMAGE_MOST, OPENAI_IMAGE, PDF_PAGE, n_image_tokens, n_pdf_tokens, n_sound_tokens
from contextkit.models import Model

Encode = Callable[[str], "list[int]"]
"""A text's token ids."""


class TokenCounter:
    """Counts for one tokenizer, and remembers the texts it has counted."""

    def __init__(self, tokenizer: str, bytes_per_token: float) -> None:
        self.tokenizer = tokenizer
        """`o200k_base`, or `bytes` for an estimate by size."""
        self.bytes_per_token = bytes_per_token
        """UTF-8 bytes a token, where sizes are estimated."""
        self._remembered: dict[bytes, int] = {}

    @property
    def is_estimate(self) -> bool:
        """Return whether text is counted by size, for want of a tokenizer or of its ranks."""
        return self._encode is None

    def count(self, value: Json) -> int:
        """Tokens of one block or message.

        Raises `NotSerialisable` for what is not JSON.

        >>> TokenCounter("bytes", 4.0).count({"type": "text", "text": "sixteen letters!"})
        4
        """
        tally = _Tally()
        _walk(value, tally)
        encode = self._encode
        if encode:
            return tally.n_tokens + sum(self._n_exact(encode, text) for text in tally.texts)
        n_bytes = _n_bytes("".join(tally.texts)) + tally.n_frame_bytes
        return tally.n_tokens + math.ceil(n_bytes / self.bytes_per_token)

    def _n_exact(self, encode: Encode, text: str) -> int:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._remembered.get(digest)
        if known is None:
            known = self._remembered[digest] = sum(len(encode(chunk)) for chunk in chunks(text))
            if len(self._remembered) > _MOST_REMEMBERED:
                for old in tuple(islice(self._remembered, _MOST_REMEMBERED // 8)):
                    self._remembered.pop(old, None)
        return known

    @cached_property
    def _encode(self) -> Encode | None:
        ranks = _RANKS.get(self.tokenizer)
        found = (load(self.tokenizer, ranks) for load in (_tiktoken, _bpe_openai)) if ranks else iter(())
        return next((encode for encode in found if encode), None)


_MOST_REMEMBERED = 65_536
"""Texts a counter remembers; beyond, the oldest eighth is dropped."""


def counter_for(model: Model) -> TokenCounter:
    """The counter of `model`; models that count alike share one.

    >>> from contextkit.models import model_named
    >>> counter_for(model_named("claude-opus-5")) is counter_for(model_named("claude-opus-5-5"))
    True
    """
    return _counter(model.tokenizer, model.bytes_per_token)


@lru_cache(maxsize=64)
def _counter(tokenizer: str, bytes_per_token: float) -> TokenCounter:
    return TokenCounter(tokenizer, bytes_per_token)


@dataclass(slots=True)
class _Tally:
    """What one value holds."""

    texts: list[str] = field(default_factory=list)
    """Leaves that are prompt text."""
    n_tokens: int = 0
    """Tokens of what is not text: pictures, files, numbers."""
    n_frame_bytes: int = 0
    """Text the provider writes around blocks; counts where text is estimated by size."""


Rule = Callable[[dict[str, Json], _Tally], "str | None"]
"""What a block of one type adds to the tally; gives the key it has dealt with."""


def _walk(value: Json, tally: _Tally) -> None:
    """Put the leaves of `value` in the tally."""
    kind = type(value)
    if kind is dict:
        rule = _RULES.get(str(value.get("type")))
        done = rule(value, tally) if rule else None
        for key, item in value.items():
            if key in _SILENT or key == done:
                continue
            if type(item) is str:
                tally.texts.append(item)
            elif type(item) in _VERBATIM.get(key, ()):
                _walk_verbatim(item, tally)
            elif not _is_measured(key, item, tally):
                _walk(item, tally)
    elif kind is list or kind is tuple:
        for item in value:
            _walk(item, tally)
    else:
        _take(value, tally)


def _walk_verbatim(value: Json, tally: _Tally) -> None:
    """The same of tool arguments and schemas, of which every key and leaf is prompt text."""
    if type(value) is dict:
        tally.texts.extend(value)
        value = value.values()
    for item in value:
        if type(item) is str:
            tally.texts.append(item)
        elif type(item) in _CONTAINERS:
            _walk_verbatim(item, tally)
        else:
            _take(item, tally)


def _take(leaf: Json, tally: _Tally) -> None:
    """A text is counted later, all at once; a number is one token; null says nothing."""
    kind = type(leaf)
    if kind is str:
        tally.texts.append(leaf)
    elif kind in _NUMBERS:
        tally.n_tokens += 1
    elif leaf is not None:
        raise NotSerialisable("$", f"{kind.__name__} has no JSON form; pass dict, list, str, int, float, bool or None")


_CONTAINERS = frozenset({dict, list, tuple})
_NUMBERS = frozenset({int, float, bool})
_TEXT = built_in_table("fields.toml")["text"]
_VERBATIM: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXT["verbatim_objects"], (dict,)),
    **dict.fromkeys(_TEXT["verbatim_arrays"], (list,)),
}
"""Key → the types under it that are verbatim: a tool call's `input` is an object, a request's is a list of items."""
_SILENT = frozenset(_TEXT["silent"])
"""Keys whose values are no prompt text: names for machines, markers, proofs, and what a rule below has counted."""


def _frame(block: dict[str, Json], tally: _Tally) -> None:
    tally.n_frame_bytes += _FRAME_BYTES


_FRAME_BYTES = 154
"""Text around a tool call or a tool result on Claude, ids included: over the 443 calls that `bytes_per_token` is
measured with (contextkit/models.py), a call and its result cost 94 tokens beyond their text; split evenly, at 3.28
bytes a token."""


def _base64(source: dict[str, Json], tally: _Tally) -> str:
    measure = _MEDIA.get(str(source.get("media_type")).partition("/")[0])
    tally.n_tokens += measure(str(source.get("data"))) if measure else 0
    return "data"


_MEDIA: dict[str, Callable[[str], int]] = {
    "image": n_image_tokens,
    "application": n_pdf_tokens,
    "audio": n_sound_tokens,
}


def _sourced(n_tokens: int) -> Rule:
    """A block whose content stands under `source`: a size nobody knows if that is a URL or a file id."""

    def rule(block: dict[str, Json], tally: _Tally) -> str | None:
        source = block.get("source")
        if type(source) is dict and source.get("type") in ("base64", "text", "content"):
            return None
        tally.n_tokens += n_tokens
        return "source"

    return rule


def _opaque(key: str, n_tokens: int) -> Rule:
    """A block whose `key` is no text, but so many tokens."""

    def rule(block: dict[str, Json], tally: _Tally) -> str:
        tally.n_tokens += n_tokens
        return key

    return rule


def _openai_file(block: dict[str, Json], tally: _Tally) -> str:
    data = _text_at(block, "file_data") or _text_at(block.get("file"), "file_data")
    tally.n_tokens += n_pdf_tokens(data.partition(",")[2] or data)
    return "file_url"


def _openai_sound(block: dict[str, Json], tally: _Tally) -> str:
    tally.n_tokens += n_sound_tokens(_text_at(block.get("input_audio"), "data"))
    return "input_audio"


def _inline(item: dict[str, Json]) -> int | None:
    """Gemini's `inlineData`; None where it holds none."""
    measure = _MEDIA.get(str(item.get("mimeType")).partition("/")[0])
    return measure(_text_at(item, "data")) if measure and "data" in item else None


def _in_bytes(measure: Callable[[str], int]) -> Callable[[dict[str, Json]], int | None]:
    """Bedrock's picture or document, whose base64 stands under `source.bytes`; None for one in words."""

    def measured(item: dict[str, Json]) -> int | None:
        data = _text_at(item.get("source"), "bytes")
        return measure(data) if data else None

    return measured


_MEASURES: dict[str, Callable[[dict[str, Json]], int | None]] = {
    "inlineData": _inline,
    "fileData": lambda item: IMAGE_MOST,
    "image": _in_bytes(n_image_tokens),
    "document": _in_bytes(n_pdf_tokens),
}
"""Key → tokens of what stands under it, for blocks that are named by a key and not by a type."""


def _is_measured(key: str, item: Json, tally: _Tally) -> bool:
    n_tokens = _MEASURES[key](item) if key in _MEASURES and type(item) is dict else None
    tally.n_tokens += n_tokens or 0
    return n_tokens is not None


def _text_at(holder: Json, key: str) -> str:
    """The text at `holder[key]`, "" where there is none: a body is counted before anybody has checked its shape."""
    found = holder.get(key) if type(holder) is dict else None
    return found if type(found) is str else ""


_RULES: dict[str, Rule] = {
    "tool_use": _frame,
    "server_tool_use": _frame,
    "mcp_tool_use": _frame,
    "tool_result": _frame,
    "mcp_tool_result": _frame,
    "base64": _base64,
    "image": _sourced(IMAGE_MOST),
    "document": _sourced(PDF_PAGE),
    "redacted_thinking": _opaque("data", 0),
    "image_url": _opaque("image_url", OPENAI_IMAGE),
    "input_image": _opaque("image_url", OPENAI_IMAGE),
    "computer_screenshot": _opaque("image_url", OPENAI_IMAGE),
    "image_generation_call": _opaque("result", OPENAI_IMAGE),
    "file": _openai_file,
    "input_file": _openai_file,
    "input_audio": _openai_sound,
}
"""Block type → its rule; every other block is the text of its leaves."""


def _n_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_CHUNK = 16_384
"""Letters encoded at once: bpe-openai takes at most 200,000 tokens, and no tokenizer is slow on a long run of one
letter this short."""
_CUT = re.compile(r".*\S(?= \S)", re.DOTALL)
"""Up to the last single blank between words, where o200k_base always starts a new token: cut there, the parts count as
the whole does."""


def chunks(text: str) -> Iterator[str]:
    """`text` in pieces a tokenizer takes, always the same ones.

    >>> [len(part) for part in chunks("word " * 5000)]
    [16379, 8621]
    """
    if not text.isascii():  # a lone surrogate has no UTF-8 form; tiktoken reads it as U+FFFD
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    at = 0
    while len(text) - at > _CHUNK:
        cut = _CUT.match(text, at, at + _CHUNK)
        end = cut.end() if cut else at + _CHUNK
        yield text[at:end]
        at = end
    yield text[at:]


_RANKS: dict[str, tuple[str, str]] = {
    "o200k_base": (
        "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}
"""Where tiktoken downloads an encoding's ranks from, and their SHA-256 (tiktoken 0.14.0,
tiktoken_ext/openai_public.py:88-92)."""


def _tiktoken(tokenizer: str, ranks: tuple[str, str]) -> Encode | None:
    if os.environ.get("CONTEXTKIT_TIKTOKEN_DOWNLOAD") != "1" and not _is_cached(*ranks):
        return None
    import tiktoken

    return tiktoken.get_encoding(tokenizer).encode_ordinary


def _is_cached(url: str, sha256: str) -> bool:
    """Whether tiktoken would find these ranks on disk (the rule of tiktoken 0.14.0, load.py:35-60), so loads without a
    download.
    """
    named = (os.environ[name] for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR") if name in os.environ)
    folder = next(named, str(Path(tempfile.gettempdir(), "data-gym-cache")))
    file = Path(folder, hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest())
    return folder != "" and file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256


def _bpe_openai(tokenizer: str, ranks: tuple[str, str]) -> Encode | None:
    """bpe-openai carries its ranks, so nothing is looked up."""
    if importlib.util.find_spec("bpe_openai") is None:
        return None
    with (
        warnings.catch_warnings()
    ):  # it opens its ranks in a way Python 3.11 calls deprecated, which is an error under `-W error`
        warnings.simplefilter("ignore", DeprecationWarning)
        encode: Encode = importlib.import_module("bpe_openai").get_encoding(tokenizer).encode_ordinary
    return encode
