"""How both of OpenAI's endpoints spell what is neutral elsewhere: data URLs, argument strings, error texts, token
counters.

Takes and gives JSON values. Knows nothing of messages or items.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable
from contextkit.log.content import is_deeper
from contextkit.providers.foreign import MAX_ARGUMENT_DEPTH
from contextkit.tools.tool import INVALID_ARGUMENTS

_PDF = "application/pdf"
_ERROR = "Error: "


def url_of(part: Mapping[str, Json]) -> str:
    """An image or document as one URL.

    >>> url_of({"type": "image", "media_type": "image/png", "data": "aGk="})
    'data:image/png;base64,aGk='
    """
    return str(part["url"]) if "url" in part else f"data:{part['media_type']};base64,{part['data']}"


def media_of(url: Json) -> dict[str, Json]:
    """The media fields of a neutral part, from a URL.

    >>> media_of("data:image/png;base64,aGk=")
    {'media_type': 'image/png', 'data': 'aGk='}
    """
    head, comma, data = str(url).partition(";base64,")
    is_data = bool(comma) and head.startswith("data:")
    return {"media_type": head[len("data:") :], "data": data} if is_data else {"url": str(url)}


def filename(part: Mapping[str, Json]) -> str:
    """What a document is called; OpenAI wants a name beside its data."""
    return str(part.get("title", "document.pdf" if part.get("media_type") == _PDF else "document"))


def titled(media: Mapping[str, Json], name: Json) -> list[Json]:
    """Neutral documents that might be spelled so: without a title, and with one."""
    return [{"type": "document", **media}, {"type": "document", **media, "title": name}]


def is_text(part: Mapping[str, Json]) -> bool:
    """Whether a document is plain text, which OpenAI takes as text and not as a file."""
    return bool(part.get("media_type") == "text/plain" and "data" in part)


def text_of(part: Mapping[str, Json]) -> str:
    """A plain-text document as one text, its title above it."""
    return f"{part['title']}\n\n{part['data']}" if "title" in part else str(part["data"])


def at(block: Json, *keys: str) -> str:
    """The text behind a path of keys, "" where there is none."""
    for key in keys:
        block = block.get(key) if isinstance(block, dict) else None
    return block if isinstance(block, str) else ""


def read_arguments(written: str) -> Json:
    """What a model wrote as arguments.

    Its text where that is not JSON, or JSON text, so that writing it again gives the same.

    No text at all is no arguments: some models write nothing for a tool without parameters.

    >>> read_arguments('{"b":1,"a":2}'), read_arguments("{torn"), read_arguments("")
    ({'b': 1, 'a': 2}, '{torn', {})
    """
    if not written.strip():
        return {}
    try:
        value = parse(written)
        canonical(value)
    except NotSerialisable:
        return written
    return written if isinstance(value, str) or is_deeper(value, MAX_ARGUMENT_DEPTH) else value


def object_arguments(written: str) -> str:
    """Arguments as servers take them that parse what was said before: as they came where they are an object, else as
    one that holds them.

    Source: vLLM before pull request 48922, llama.cpp (25510), SGLang (28035) and Alibaba's Qwen answer anything else
    with a 400.

    >>> object_arguments('{"a": 1}'), object_arguments(""), object_arguments("{torn")
    ('{"a": 1}', '{}', '{"INVALID_JSON":"{torn"}')
    """
    value = read_arguments(written)
    if isinstance(value, dict):
        return written if written.strip() else "{}"
    return canonical({INVALID_ARGUMENTS: written}).decode()


def written_arguments(arguments: Json) -> str:
    """Arguments as the string that goes on the wire."""
    return arguments if isinstance(arguments, str) else canonical(arguments).decode()


def as_error(texts: list[Json], kind: str) -> list[Json]:
    """The parts of a failed tool's output: OpenAI has no field for it, so the text says it, once."""
    if texts and texts[0].get("type") == kind:
        first = texts[0]["text"]
        return [{**texts[0], "text": first if first.startswith(_ERROR) else _ERROR + first}, *texts[1:]]
    return [{"type": kind, "text": _ERROR.strip()}, *texts]


def usage(total: int | None, details: Mapping[str, Json], output: int | None) -> Usage:
    """OpenAI's counters in ours: its input counts cached and written tokens in.

    Without `cached_tokens` nothing is known.

    >>> usage(100, {"cached_tokens": 60, "cache_write_tokens": 30}, 5)
    Usage(fresh=10, read=60, write_5m=30, write_1h=0, output=5, estimated=False)
    """
    read = details.get("cached_tokens")
    if total is None or read is None:
        return Usage(output=output)
    written = details.get("cache_write_tokens", 0)
    split = details.get("cache_write_tokens_details") or {}
    long = split.get("ttl_12h_tokens", 0)
    return Usage(total - read - written, read, written - long, long, output)
