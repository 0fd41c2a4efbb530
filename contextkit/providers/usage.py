"""The token counters of every endpoint, read by one table of field paths.

Takes the `usage` of a response, gives a `Usage`. Whether an endpoint's input count includes what was read and written
stands in the table. A field that is absent is unknown, never zero, with the exceptions that the table names. Field
names: anthropic 2.11, openai 3.52, google-genai 3.6, botocore 1.44, OpenRouter's `get-generation` page, and what
LiteLLM, vLLM, Moonshot and DashScope write beside OpenAI's names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from contextkit.cache.usage import NO_COUNT, Usage, natural, served

Report = Callable[[str], None]
"""Takes a sentence on counters that contradict each other."""


def ignore(message: str) -> None:
    """Report nothing."""


Paths = tuple[str, ...]
"""Dotted paths of one counter; the first that is there counts."""


@dataclass(frozen=True, slots=True, eq=False)
class UsageFields:
    """Where one endpoint keeps its counters."""

    name: str
    """The endpoint, or the host where its counters have names of their own."""
    recognised_by: Paths
    """Fields any of which identifies it; asked in the order of `USAGE_FIELDS`."""
    total_input: Paths = ()
    """Input, what was read and written included."""
    uncached_input: Paths = ()
    """Input without both."""
    extra_input: Paths = ()
    """Input that is in neither: results of tools that ran at the server."""
    read: Paths = ()
    """Read from the cache."""
    write: Paths = ()
    """Written, all lifetimes."""
    write_short: Paths = ()
    """Written with the short lifetime."""
    write_long: Paths = ()
    """Written with the long one."""
    output: Paths = ()
    """Generated."""
    extra_output: Paths = ()
    """Generated too, and not in `output`: thinking."""
    omits_zeros: bool = False
    """Whether a counter of zero is left out on the wire, as protobuf's JSON does."""
    omits_zero_writes: bool = False
    """Whether the counter of writes is left out where nothing was written, or ever is."""
    ttls_seconds: tuple[int, int] = (300, 3600)
    """The short and the long lifetime."""


GEMINI = UsageFields(
    "gemini",
    ("promptTokenCount", "prompt_token_count", "totalTokenCount", "total_token_count"),
    total_input=("promptTokenCount", "prompt_token_count"),
    extra_input=("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
    read=("cachedContentTokenCount", "cached_content_token_count"),
    output=("candidatesTokenCount", "candidates_token_count"),
    extra_output=("thoughtsTokenCount", "thoughts_token_count"),
    omits_zeros=True,
    omits_zero_writes=True,
)
BEDROCK_CONVERSE = UsageFields(
    "bedrock_converse",
    ("inputTokens", "cacheReadInputTokens"),
    uncached_input=("inputTokens",),
    read=("cacheReadInputTokens", "cacheReadInputTokenCount"),
    write=("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
    write_short=("cacheDetails.5m",),
    write_long=("cacheDetails.1h",),
    output=("outputTokens",),
)
OPENAI_CHAT = UsageFields(
    "openai_chat",
    ("prompt_tokens",),
    total_input=("prompt_tokens",),
    read=("prompt_tokens_details.cached_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens"),
    write=(
        "prompt_tokens_details.cache_write_tokens",
        "prompt_tokens_details.cache_creation_tokens",
        "prompt_tokens_details.cache_creation_input_tokens",
        "prompt_tokens_details.created_cache_tokens",
        "cache_creation_input_tokens",
    ),
    write_short=(
        "prompt_tokens_details.cache_write_tokens_details.ttl_30m_tokens",
        "prompt_tokens_details.cache_creation_token_details.ephemeral_5m_input_tokens",
    ),
    write_long=(
        "prompt_tokens_details.cache_write_tokens_details.ttl_12h_tokens",
        "prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens",
    ),
    output=("completion_tokens",),
)
OPENAI_RESPONSES = UsageFields(
    "openai_responses",
    ("input_tokens_details", "total_tokens"),
    total_input=("input_tokens",),
    read=("input_tokens_details.cached_tokens",),
    write=("input_tokens_details.cache_write_tokens",),
    write_short=("input_tokens_details.cache_write_tokens_details.ttl_30m_tokens",),
    write_long=("input_tokens_details.cache_write_tokens_details.ttl_12h_tokens",),
    output=("output_tokens",),
    ttls_seconds=(1800, 43200),
)
ANTHROPIC_MESSAGES = UsageFields(
    "anthropic_messages",
    ("input_tokens", "cache_read_input_tokens"),
    uncached_input=("input_tokens",),
    read=("cache_read_input_tokens",),
    write=("cache_creation_input_tokens",),
    write_short=("cache_creation.ephemeral_5m_input_tokens",),
    write_long=("cache_creation.ephemeral_1h_input_tokens",),
    output=("output_tokens",),
)
USAGE_FIELDS: tuple[UsageFields, ...] = (
    UsageFields(
        "openrouter_generation",
        ("native_tokens_prompt", "native_tokens_completion"),
        total_input=("native_tokens_prompt",),
        read=("native_tokens_cached",),
        write=("native_tokens_cache_write",),
        output=("native_tokens_completion",),
    ),
    GEMINI,
    BEDROCK_CONVERSE,
    UsageFields(
        "deepseek",
        ("prompt_cache_hit_tokens", "prompt_cache_miss_tokens"),
        total_input=("prompt_tokens",),
        uncached_input=("prompt_cache_miss_tokens",),
        read=("prompt_cache_hit_tokens",),
        output=("completion_tokens",),
        omits_zero_writes=True,
    ),
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    ANTHROPIC_MESSAGES,
)
"""Asked from the top. Anthropic and Bedrock count what was read and written apart; all others include it."""


def counters_in(usage: object) -> Mapping[str, Any]:
    """Return the counters of the `usage` field of a response; none where it is no object.

    >>> counters_in({"prompt_tokens": 9}), counters_in(None), counters_in([5])
    ({'prompt_tokens': 9}, {}, {})
    """
    return usage if isinstance(usage, Mapping) else {}


def usage_fields_of(counters: Mapping[str, Any]) -> UsageFields | None:
    """The endpoint whose names counters have, None for unknown names."""
    for row in USAGE_FIELDS:
        for name in row.recognised_by:
            if name in counters:
                return row
    return None


def usage_of(counters: Mapping[str, Any], report: Report) -> Usage | None:
    """The usage of counters whose endpoint is not known; None where they are empty, all zero, or contradict each other,
    which is reported.

    >>> usage_of({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}, print)
    Usage(fresh=40, read=60, writes=None, output=5)
    >>> usage_of({"input_tokens": 4, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 6, "output_tokens": 5}, print)
    Usage(fresh=4, read=90, writes={300: 6}, output=5)
    >>> usage_of({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}, print)
    more read and written than was sent; its bill is unknown
    """
    row = usage_fields_of(counters)
    usage = read_usage(row, counters, report) if row else None
    is_empty = usage is None or not any((usage.fresh, usage.read, usage.write_5m, usage.write_1h, usage.output))
    return None if is_empty else usage


def streamed_counters(counters: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The counters of a stream as Converse documents them: ConverseStream of OpenAI's models counts what was read and
    written in `inputTokens` too, which a call that is not streamed does not (measured on openai.gpt-5.6:
    https://github.com/maximhq/bifrost/pull/6942, read 2026-11-27).

    Counters that are smaller than that are as documented, and stand.

    >>> counters = {"inputTokens": 4995, "cacheReadInputTokens": 0, "cacheWriteInputTokens": 4993}
    >>> streamed_counters(counters, "openai.gpt-5.6-sol")["inputTokens"], streamed_counters(counters, "amazon.nova-pro-v1:0")["inputTokens"]
    (2, 4995)
    """
    sent = natural(counters.get("inputTokens"))
    cached = [natural(counters.get(f"cache{kind}InputTokens")) or 0 for kind in ("Read", "Write")]
    if sent is None or not 0 < sum(cached) <= sent or not _OPENAI_AT_BEDROCK.search(model):
        return counters
    return {**counters, "inputTokens": sent - sum(cached)}


_OPENAI_AT_BEDROCK = re.compile(r"(?:^|[./:])openai\.")
"""In the id of a model, of an inference profile of a region, in the ARN of either, or behind a router's name."""


def billed_usd_of(counters: Mapping[str, Any]) -> float | None:
    """Dollars that OpenRouter says a call cost, by the counters of a response or of a generation record; None where it
    says none.

    With a key of the caller's own (`is_byok`) `cost` is OpenRouter's fee only: what the provider charged to that key
    is added, and the cost is unknown where that is not said
    (https://openrouter.ai/docs/use-cases/usage-accounting, read 2026-11-26).

    >>> billed_usd_of({"prompt_tokens": 9, "cost": 0.025, "cost_details": {"upstream_inference_cost": 0.025}})
    0.025
    >>> billed_usd_of({"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": 10}})
    10.5
    >>> billed_usd_of({"cost": 0, "is_byok": True}), billed_usd_of({"prompt_tokens": 9}), billed_usd_of({"cost": 10**400})
    (None, None, None)
    """
    cost = _usd(counters.get("cost"))
    if cost is None:
        cost = _usd(counters.get("total_cost"))
    if cost is None or counters.get("is_byok") is not True:
        return cost
    details = counters.get("cost_details")
    upstream = _usd((details if isinstance(details, Mapping) else counters).get("upstream_inference_cost"))
    return None if upstream is None else cost + upstream


def _usd(value: object) -> float | None:
    """An amount of dollars; None for what is none. A free model costs 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_USD:
        return None
    return float(value)


MOST_USD = 1e12
"""What is above it is no cost, and an integer may be too large for a float."""


def read_usage(row: UsageFields, counters: Mapping[str, Any], report: Report = ignore) -> Usage | None:
    """The usage of counters with the names of `row`; None where they contradict each other, which is reported.

    >>> read_usage(OPENAI_CHAT, {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}})
    Usage(fresh=5, read=4, writes=None, output=None)
    >>> read_usage(GEMINI, {"promptTokenCount": 9, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 2})
    Usage(fresh=12, read=0, writes={}, output=2)
    """
    flat = _flat(counters)
    counts: dict[str, int | None] = dict.fromkeys(_COUNTS)
    for name, paths in _paths(row):
        value = next((flat[path] for path in paths if flat.get(path) is not None), None)
        if value is not None:
            counts[name] = natural(value)
            if counts[name] is None:
                report(NO_COUNT)
    has_input = counts["total_input"] is not None or counts["uncached_input"] is not None
    if row.omits_zeros and has_input:
        counts.update({name: counts[name] or 0 for name in ("read", "output")})
    output = counts["output"]
    if output is not None:
        output += counts["extra_output"] or 0
    short, long = _writes(counts, report)
    if short is None and long is None and has_input and counts["read"] is not None and row.omits_zero_writes:
        short = long = 0
    written = (short or 0) + (long or 0)
    if counts["total_input"] is not None and (counts["read"] or 0) + written > counts["total_input"]:
        report("more read and written than was sent; its bill is unknown")
        return None
    fresh = _uncached(row, counts, written, report)
    read = counts["read"] if fresh is not None or row.uncached_input else None
    writes = None if short is None and long is None else dict(zip(row.ttls_seconds, (short, long), strict=True))
    return served(Usage(fresh, read, output=output, writes=writes), counters)


_OWN_FIELDS = {
    "anthropic_messages": ANTHROPIC_MESSAGES,
    "bedrock_converse": BEDROCK_CONVERSE,
    "gemini": GEMINI,
    "openai_chat": replace(OPENAI_CHAT, omits_zero_writes=True, ttls_seconds=(1800, 43200)),
    "openai_responses": replace(OPENAI_RESPONSES, omits_zero_writes=True),
}
"""Endpoint → counters of its own responses: OpenAI leaves out writes that were not made, compatible hosts may not."""


def endpoint_usage(endpoint: str, counters: object) -> Usage:
    """Read the usage of a response of `endpoint`; counters that are no object are unknown.

    Anthropic's totals leave out a compaction on the way.

    >>> endpoint_usage("bedrock_converse", {"inputTokens": 4, "cacheReadInputTokens": 90, "cacheWriteInputTokens": 6,
    ...     "outputTokens": 5, "cacheDetails": [{"ttl": "1h", "inputTokens": 2}, {"ttl": "5m", "inputTokens": 4}]})
    Usage(fresh=4, read=90, writes={300: 4, 3600: 2}, output=5)
    """
    row = _OWN_FIELDS[endpoint]
    passes = [counters_in(counters)]
    iterations = passes[0].get("iterations")
    if endpoint == "anthropic_messages" and isinstance(iterations, list):
        passes += [each for each in iterations if isinstance(each, Mapping) and each.get("type") == "compaction"]
    total, *others = (read_usage(row, each) or Usage() for each in passes)
    return sum(others, start=total)


_COUNTS = (
    "total_input",
    "uncached_input",
    "extra_input",
    "read",
    "write",
    "write_short",
    "write_long",
    "output",
    "extra_output",
)


@lru_cache(maxsize=64)
def _paths(row: UsageFields) -> tuple[tuple[str, Paths], ...]:
    """Each counter of a row and its paths."""
    return tuple((name, getattr(row, name)) for name in _COUNTS)


def _flat(counters: Mapping[str, Any]) -> dict[str, Any]:
    """Nested counters under their dotted path too, up to three steps, no path being longer."""
    flat = dict(counters)
    for name, value in counters.items():
        if isinstance(value, dict | list):
            for path, inner in _nested(value):
                flat[f"{name}.{path}"] = inner
                if isinstance(inner, dict | list):
                    for further, deepest in _nested(inner):
                        flat[f"{name}.{path}.{further}"] = deepest
    return flat


def _nested(value: dict[str, Any] | list[Any]) -> Iterable[tuple[str, Any]]:
    """Bedrock lists one count a lifetime: `[{"ttl": "1h", "inputTokens": 7}]`; the first of each counts."""
    if isinstance(value, dict):
        return value.items()
    return [(str(item.get("ttl")), item.get("inputTokens")) for item in reversed(value) if isinstance(item, dict)]


def _writes(counts: Mapping[str, int | None], report: Report) -> tuple[int | None, int | None]:
    """Writes of both lifetimes.

    One that nobody names is the short one, which is what is written unless the long one is asked for.
    """
    total, short, long = counts["write"], counts["write_short"], counts["write_long"]
    if total and short is not None and long is not None and not short + long:
        short = long = None
    if short is None and long is None:
        return (None, None) if total is None else (total, 0)
    rest = max(0, (total or 0) - (short or 0) - (long or 0))
    short = rest if short is None else short
    long = rest if long is None else long
    if total is not None and short + long != total:
        report("the writes of both lifetimes are not their sum; the lifetimes stand")
    return short, long


def _uncached(row: UsageFields, counts: Mapping[str, int | None], written: int, report: Report) -> int | None:
    """Uncached input; where it is given in two ways, both must say the same."""
    uncached, total, read = counts["uncached_input"], counts["total_input"], counts["read"]
    if row.uncached_input:
        if uncached is not None and total is not None and read is not None and uncached + read != total:
            report("hits and misses are not their sum, prompt_tokens; hits and misses stand")
        return uncached
    if total is None or read is None:
        return None
    return total - read - written + (counts["extra_input"] or 0)
