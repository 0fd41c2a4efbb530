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
        keys = sorted(value.keys() - MARKERS)
        if "type" in value:
            keys.remove("type")
            keys.insert(0, "type")
        ordered = {}
        for key in keys:
            item = value[key]
            ordered[key] = item if type(item) is str or key in VERBATIM else normal(item)
        return ordered
    return [normal(item) for item in value] if isinstance(value, list | tuple) else value


def marker_of(value: Json) -> Json:
    """The first marker in a block, its own or a nested one's, or None.

    >>> marker_of({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}})
    {'type': 'ephemeral'}
    """
    if isinstance(value, dict):
        own = [value[key] for key in MARKERS if value.get(key) is not None]
        if own:
            return own[0]
        children = [item for key, item in value.items() if type(item) is not str and key not in VERBATIM]
    elif isinstance(value, list | tuple):
        children = list(value)
    else:
        return None
    for child in children:
        marker = marker_of(child)
        if marker is not None:
            return marker
    return None
