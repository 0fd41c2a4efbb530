"""The one spelling of a block: `type` first, the other keys in order, markers out, meaning untouched.

Providers render prompts from fields, so key order inside a block is noise, and so are cache markers; the order of keys
inside tool arguments and schemas is what the model sees, and stays. Takes and gives JSON values; knows nothing of any
one provider.
"""

from __future__ import annotations

from contextkit.canonical import Json

VERBATIM = frozenset(
    {
        "input",
        "input_schema",
        "parameters",
        "schema",
        "arguments",
        "input_examples",
        "json",
        "args",
        "parametersJsonSchema",
        "response",
        "partMetadata",
    }
)
"""Keys whose values a model or an author ordered (Anthropic keys `tool_use.input` on order: prompt-caching docs,
troubleshooting). The second line is Bedrock's and Gemini's (botocore 1.44 bedrock-runtime, google-genai 3.4 types)."""
MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Keys that mark a breakpoint and never enter a digest."""


def normal(value: Json) -> Json:
    """`value` in normal form, markers left out at every depth.

    >>> normal({"text": "hi", "cache_control": {"type": "ephemeral"}, "type": "text"})
    {'type': 'text', 'text': 'hi'}
    >>> normal({"type": "tool_use", "name": "f", "input": {"b": 1, "a": 2}})
    {'type': 'tool_use', 'input': {'b': 1, 'a': 2}, 'name': 'f'}
    """
    if isinstance(value, dict):
        return {key: value[key] if key in VERBATIM else normal(value[key]) for key in _ordered(value)}
    return [normal(item) for item in value] if isinstance(value, list | tuple) else value


def marker_of(value: Json) -> Json:
    """The first marker in a block, its own or a nested one's, or None.

    >>> marker_of({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}})
    {'type': 'ephemeral'}
    """
    if isinstance(value, dict):
        own = [value[key] for key in MARKERS if value.get(key) is not None]
        nested = (marker_of(item) for key, item in value.items() if key not in VERBATIM)
        return own[0] if own else next((marker for marker in nested if marker is not None), None)
    if isinstance(value, list | tuple):
        return next((marker for marker in map(marker_of, value) if marker is not None), None)
    return None


def _ordered(block: dict[str, Json]) -> list[str]:
    return sorted((key for key in block if key not in MARKERS), key=lambda key: (key != "type", key))
