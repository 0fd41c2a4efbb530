"""Asking the provider itself why a call could not re-use the one before: the field that asks, put into the body.

Takes a body and the id of the response to compare with, gives the body to send. Only the end of the JSON object
changes, so the prefix stays what it was. Sources: anthropic/types/diagnostics_param.py,
openai/types/responses/response_create_params.py, and
https://platform.claude.com/docs/en/build-with-claude/cache-diagnostics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextkit.canonical import Json, canonical
from contextkit.models import find_model


def _messages(fields: Mapping[str, Json], previous: str) -> Json:
    """Null asks the provider to remember the first call, so that the second can be compared with it."""
    return {} if "diagnostics" in fields else {"diagnostics": {"previous_message_id": previous or None}}


def _responses(fields: Mapping[str, Json], previous: str) -> Json:
    """Models that bill by breakpoints take the option, older ones refuse it (learn.microsoft.com, Azure OpenAI prompt
    caching).
    """
    row = find_model(str(fields.get("model")))
    takes_it = row is not None and row.provider == "openai" and row.cache == "breakpoints"
    is_free = "prompt_cache_options" not in fields
    return {"prompt_cache_options": {"comparison_response_id": previous}} if takes_it and is_free and previous else {}


_ASKS: Mapping[str, Callable[[Mapping[str, Json], str], Json]] = {
    "anthropic_messages": _messages,
    "openai_responses": _responses,
    "openai_chat": lambda fields, previous: {},
}
"""Wire → the fields that ask; what the caller asks already is left as it is."""


def with_diagnostics(body: bytes, fields: Mapping[str, Json], wire: str, previous: str) -> bytes:
    """`body` with the question at its end; `fields` are its top-level fields, as far as they are known to matter.

    >>> with_diagnostics(b'{"model":"m"}', {"model": "m"}, "anthropic_messages", "msg_1")
    b'{"model":"m","diagnostics":{"previous_message_id":"msg_1"}}'
    """
    more = _ASKS[wire](fields, previous)
    whole = body.rstrip()
    return whole[:-1] + b"," + canonical(more)[1:] if more and whole.endswith(b"}") and len(fields) else body
