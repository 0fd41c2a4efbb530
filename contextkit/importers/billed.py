"""What a response says was billed, by one table of field paths; and who billed it.

Takes the `usage` of a response of any provider, gives a `Usage`; takes an address, a wire and a model, gives the id
prices are looked up under. Whether a provider's input count holds what was read and written stands in the table. A
field that is not there is unknown, never zero, with one exception that the table names. Field names: anthropic 2.11,
openai 3.52, google-genai 3.4, botocore 1.44, OpenRouter's `get-generation` page, and what LiteLLM, vLLM, Moonshot and
DashScope write beside OpenAI's names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from contextkit.cache.usage import Usage, served
from contextkit.models import find_model, model_named

Tell = Callable[[str], None]
"""Takes what is wrong with a bill."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Where one shape of usage keeps its counts; paths are dotted, of several the first that is there counts."""

    name: str
    """The shape."""
    shown_by: tuple[str, ...]
    """Fields any of which shows it; asked in the order of `SHAPES`."""
    whole: tuple[str, ...] = ()
    """Input that holds what was read and written."""
    fresh: tuple[str, ...] = ()
    """Input that leaves both out."""
    read: tuple[str, ...] = ()
    """Read from the cache."""
    write: tuple[str, ...] = ()
    """Written, all lifetimes."""
    short: tuple[str, ...] = ()
    """Written with the short lifetime."""
    long: tuple[str, ...] = ()
    """Written with the long one."""
    output: tuple[str, ...] = ()
    """Generated."""
    beside: tuple[str, ...] = ()
    """Generated too, and not in `output`."""
    leaves_out_zeros: bool = False
    """Whether a count of zero is left out on the wire, as protobuf's JSON does."""
    never_writes: bool = False
    """Whether nothing is ever billed as written."""


SHAPES: tuple[Counters, ...] = (
    Counters(
        "openrouter_generation",
        ("native_tokens_prompt", "native_tokens_completion"),
        whole=("native_tokens_prompt",),
        read=("native_tokens_cached",),
        write=("native_tokens_cache_write",),
        output=("native_tokens_completion",),
    ),
    Counters(
        "gemini",
        ("promptTokenCount", "prompt_token_count", "totalTokenCount", "total_token_count"),
        whole=("promptTokenCount", "prompt_token_count"),
        read=("cachedContentTokenCount", "cached_content_token_count"),
        output=("candidatesTokenCount", "candidates_token_count"),
        beside=("thoughtsTokenCount", "thoughts_token_count"),
        leaves_out_zeros=True,
        never_writes=True,
    ),
    Counters(
        "bedrock_converse",
        ("inputTokens", "cacheReadInputTokens"),
        fresh=("inputTokens",),
        read=("cacheReadInputTokens", "cacheReadInputTokenCount"),
        write=("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        short=("cacheDetails.5m",),
        long=("cacheDetails.1h",),
        output=("outputTokens",),
    ),
    Counters(
        "deepseek",
        ("prompt_cache_hit_tokens", "prompt_cache_miss_tokens"),
        whole=("prompt_tokens",),
        fresh=("prompt_cache_miss_tokens",),
        read=("prompt_cache_hit_tokens",),
        output=("completion_tokens",),
        never_writes=True,
    ),
    Counters(
        "openai_chat",
        ("prompt_tokens",),
        whole=("prompt_tokens",),
        read=("prompt_tokens_details.cached_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens"),
        write=(
            "prompt_tokens_details.cache_write_tokens",
            "prompt_tokens_details.cache_creation_tokens",
            "prompt_tokens_details.cache_creation_input_tokens",
            "prompt_tokens_details.created_cache_tokens",
            "cache_creation_input_tokens",
        ),
        short=(
            "prompt_tokens_details.cache_write_tokens_details.ttl_30m_tokens",
            "prompt_tokens_details.cache_creation_token_details.ephemeral_5m_input_tokens",
        ),
        long=(
            "prompt_tokens_details.cache_write_tokens_details.ttl_12h_tokens",
            "prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens",
        ),
        output=("completion_tokens",),
    ),
    Counters(
        "openai_responses",
        ("input_tokens_details", "total_tokens"),
        whole=("input_tokens",),
        read=("input_tokens_details.cached_tokens",),
        write=("input_tokens_details.cache_write_tokens",),
        short=("input_tokens_details.cache_write_tokens_details.ttl_30m_tokens",),
        long=("input_tokens_details.cache_write_tokens_details.ttl_12h_tokens",),
        output=("output_tokens",),
    ),
    Counters(
        "anthropic_messages",
        ("input_tokens", "cache_read_input_tokens"),
        fresh=("input_tokens",),
        read=("cache_read_input_tokens",),
        write=("cache_creation_input_tokens",),
        short=("cache_creation.ephemeral_5m_input_tokens",),
        long=("cache_creation.ephemeral_1h_input_tokens",),
        output=("output_tokens",),
    ),
)
"""Asked from the top. Anthropic and Bedrock count what was read and written apart; all others count it in."""


def shape_of(counts: Mapping[str, Any]) -> Counters | None:
    """Whose words a usage is in, None where nobody's."""
    for shape in SHAPES:
        for name in shape.shown_by:
            if name in counts:
                return shape
    return None


def usage_of(counts: Mapping[str, Any], tell: Tell) -> Usage | None:
    """The bill of a usage; None where it says nothing, is all zero, or contradicts itself, which `tell` is told.

    >>> usage_of({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}, print)
    Usage(fresh=40, read=60, writes=None, output=5)
    >>> usage_of({"input_tokens": 4, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 6, "output_tokens": 5}, print)
    Usage(fresh=4, read=90, writes={300: 6}, output=5)
    >>> usage_of({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}, print)
    more read and written than was sent; its bill is unknown
    """
    shape = shape_of(counts)
    if shape is None:
        return None
    flat = _flat(counts)
    known = {name: _count(flat, paths, tell) for name, paths in _PATHS[shape.name]}
    if shape.leaves_out_zeros:
        known.update({name: known[name] or 0 for name in ("read", "output", "beside")})
    short, long = _writes(shape, known, tell)
    output = None if known["output"] is None else known["output"] + (known["beside"] or 0)
    written = (short or 0) + (long or 0)
    if shape.whole and known["whole"] is not None and (known["read"] or 0) + written > known["whole"]:
        tell("more read and written than was sent; its bill is unknown")
        return None
    fresh = _fresh(shape, known, written, tell)
    usage = Usage(fresh, known["read"] if fresh is not None or shape.fresh else None, short, long, output)
    if shape.name == "openai_responses":
        usage = usage.with_ttls_of("openai")
    bill = served(usage, counts)
    return bill if any((bill.fresh, bill.read, bill.write_5m, bill.write_1h, bill.output)) else None


_COUNTS = ("whole", "fresh", "read", "write", "short", "long", "output", "beside")
_PATHS = {shape.name: [(name, getattr(shape, name)) for name in _COUNTS] for shape in SHAPES}
"""Shape → each count and its paths."""


def _count(flat: Mapping[str, Any], paths: tuple[str, ...], tell: Tell) -> int | None:
    for path in paths:
        value = flat.get(path)
        if value is not None:
            if type(value) is int and value >= 0:
                return value
            tell("a token count that is no natural number; it is unknown")
            return None
    return None


def _flat(counts: Mapping[str, Any]) -> dict[str, Any]:
    """What stands inside under its dotted path too, up to three steps, no path being longer."""
    flat = dict(counts)
    for name, value in counts.items():
        for path, inner in _SIDES.get(type(value), _no_sides)(value):
            flat[f"{name}.{path}"] = inner
            for further, deepest in _SIDES.get(type(inner), _no_sides)(inner):
                flat[f"{name}.{path}.{further}"] = deepest
    return flat


def _no_sides(value: Any) -> Iterable[tuple[str, Any]]:
    return ()


def _lifetimes(items: list[Any]) -> Iterable[tuple[str, Any]]:
    """Bedrock lists one count a lifetime: `[{"ttl": "1h", "inputTokens": 7}]`; the first of each counts."""
    return [(str(item.get("ttl")), item.get("inputTokens")) for item in reversed(items) if isinstance(item, dict)]


_SIDES: dict[type, Callable[[Any], Iterable[tuple[str, Any]]]] = {dict: lambda value: value.items(), list: _lifetimes}


def _writes(shape: Counters, known: Mapping[str, int | None], tell: Tell) -> tuple[int | None, int | None]:
    """Writes of both lifetimes.

    One that nobody names is the short one, which is what is written unless the long one is asked for.
    """
    total, short, long = known["write"], known["short"], known["long"]
    if total is None and short is None and long is None:
        return (0, 0) if shape.never_writes else (None, None)
    if (
        total is not None
        and short is not None
        and long is not None
        and short + long != total
        and total
        and not short + long
    ):
        short = long = None
    if short is None and long is None:
        return total, 0
    if short is None or long is None:
        rest = max(0, (total or 0) - (short or 0) - (long or 0))
        short, long = (rest if short is None else short), (rest if long is None else long)
    if total is not None and short + long != total:
        tell("the writes of both lifetimes are not their sum; the lifetimes stand")
    return short, long


def _fresh(shape: Counters, known: Mapping[str, int | None], written: int, tell: Tell) -> int | None:
    """Plain input; where it is told in two ways, both must say the same."""
    fresh, whole, read = known["fresh"], known["whole"], known["read"]
    if shape.fresh:
        if None not in (fresh, whole, read) and (fresh or 0) + (read or 0) != whole:
            tell("hits and misses are not their sum, prompt_tokens; hits and misses stand")
        return fresh
    return None if whole is None or read is None else whole - read - written


# Who bills
# ----------------------------------------------------------------------------------------------------------------

_WIRES = {
    "gemini": "google",
    "bedrock_converse": "aws",
    "deepseek": "deepseek",
    "openrouter_generation": "openrouter",
}
"""Wire or shape of usage → who speaks it and nobody else."""
_ALIASES = {
    "bedrock": "aws",
    "aws_bedrock": "aws",
    "amazon_bedrock": "aws",
    "vertex_ai": "google",
    "vertexai": "google",
    "gemini": "google",
    "google_genai": "google",
    "gcp": "google",
    "azure_openai": "azure",
    "azure_ai": "azure",
    "xai": "x-ai",
    "moonshot": "moonshotai",
    "fireworks_ai": "fireworks",
    "together_ai": "together",
    "z.ai": "zai",
    "claude": "anthropic",
}
"""Other names of the providers that prices are known of."""
_HOSTED = {"bedrock-2023-05-31": "aws", "vertex-2023-10-16": "google"}
"""`anthropic_version` of a body → whose cloud takes it."""
_NAMED = re.compile(r"/(?:models?|deployments)/([^/:?]+)")
_PROJECT = re.compile(r"/projects/([^/?]+)/locations/([^/?]+)/")
_REGIONAL = re.compile(r"/model/([^/?]+)/(?:converse|invoke)")


@lru_cache(maxsize=1024)
def provider_of(url: str, said: str, wire: str, model: str, version: str = "") -> str:
    """The id prices are looked up under: by who was called, then by what a recorder says, the wire, the model.

    Empty where nobody knows.

    >>> provider_of("https://api.openai.com/v1/responses", "", "openai_responses", "gpt-5.1")
    'openai'
    >>> provider_of("", "", "gemini", "gemini-2.5-pro"), provider_of("", "xAI", "openai_chat", "my-model")
    ('google', 'x-ai')
    """
    named = _by_name(said)
    of_wire = _WIRES.get(wire, "") or _HOSTED.get(version, "")
    return _by_address(url) or named or of_wire or _by_model(model, wire)


def _by_address(url: str) -> str:
    from genai_prices.data_snapshot import get_snapshot

    parts = urlsplit(url if "://" in url else f"https://{url}") if url else None
    if parts is None or not parts.hostname:
        return ""
    try:
        return get_snapshot().find_provider(None, None, f"https://{parts.hostname}{parts.path}").id
    except LookupError:
        return ""


def _by_name(said: str) -> str:
    from genai_prices.data_snapshot import get_snapshot

    name = said.strip().lower().replace(" ", "_")
    name = _ALIASES.get(name, name.replace("_", "-"))
    return name if any(known.id == name for known in get_snapshot().providers) else ""


def _by_model(model: str, wire: str) -> str:
    from genai_prices.data_snapshot import get_snapshot

    row = find_model(model) if model else None
    if row is not None and "/" not in model:
        return model_named(model).provider
    if wire == "anthropic_messages" and (not model or "claude" in model):
        return "aws" if "anthropic." in model else "anthropic"
    if "/" in model:
        return "openrouter"
    try:
        return get_snapshot().find_provider(model, None, None).id if model else ""
    except LookupError:
        return ""


def cloud_in(url: str) -> tuple[str, str]:
    """The project and the region an address names, as Google Cloud's do; empty where it names none.

    >>> cloud_in("https://aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/google/models/gemini-2.5-pro:generateContent")
    ('p', 'europe-west1')
    """
    found = _PROJECT.search(url)
    return (unquote(found[1]), unquote(found[2])) if found else ("", "")


def model_in(url: str) -> str:
    """The model an address names, as Gemini's, Bedrock's and Azure's do; empty where it names none.

    >>> model_in("https://bedrock-runtime.eu-west-1.amazonaws.com/model/eu.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse")
    'eu.anthropic.claude-haiku-4-5-20251001-v1:0'
    """
    found = _REGIONAL.search(url) or _NAMED.search(url)
    return unquote(found[1]) if found else ""
