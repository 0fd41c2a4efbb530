"""The provider's own cache diagnosis: adds the field that requests it to a body.

Only the end of the JSON object changes, so the prefix stays the same. Sources: anthropic/types/diagnostics_param.py,
openai/types/responses/response_create_params.py, and
https://platform.claude.com/docs/en/build-with-claude/cache-diagnostics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextkit.canonical import Json, canonical
from contextkit.models import find_model


def _messages(fields: Mapping[str, Json], previous: str) -> Json:
    """Make the field for Messages; null lets the provider store the first call for a comparison with the second."""
    return {} if "diagnostics" in fields else {"diagnostics": {"previous_message_id": previous or None}}


def _responses(fields: Mapping[str, Json], previous: str) -> Json:
    """Make the field for Responses; models billed by breakpoints accept it, older ones refuse it (learn.microsoft.com, Azure
    OpenAI prompt caching).
    """
    row = find_model(str(fields.get("model")))
    takes_it = row is not None and row.provider == "openai" and row.cache == "breakpoints"
    is_free = "prompt_cache_options" not in fields
    return {"prompt_cache_options": {"comparison_response_id": previous}} if takes_it and is_free and previous else {}


_FIELDS: Mapping[str, Callable[[Mapping[str, Json], str], Json]] = {
    "anthropic_messages": _messages,
    "openai_responses": _responses,
    "openai_chat": lambda fields, previous: {},
}
"""Wire format → fields to add; fields that the caller set are left unchanged."""


def with_diagnostics(body: bytes, fields: Mapping[str, Json], wire: str, previous: str) -> bytes:
    """Append the diagnosis field to `body`; `fields` are its top-level fields.

    >>> with_diagnostics(b'{"model":"m"}', {"model": "m"}, "anthropic_messages", "msg_1")
    b'{"model":"m","diagnostics":{"previous_message_id":"msg_1"}}'
    """
    more = _FIELDS[wire](fields, previous)
    whole = body.rstrip()
    return whole[:-1] + b"," + canonical(more)[1:] if more and whole.endswith(b"}") and len(fields) else body
