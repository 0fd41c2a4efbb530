"""What Chat Completions and Responses have in common: errors.

Takes refusals, gives JSON in OpenAI's words (https://platform.openai.com/docs/guides/error-codes).
"""

from __future__ import annotations

from contextkit.canonical import Json
from contextkit.errors import UnknownModel, UnreadableRequest
from contextkit.server.refusals.openai_shape import invalid
from contextkit.server.refusals.refusal import Refusal

TYPES: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    405: ("invalid_request_error", "method_not_supported"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: ("server_error", "server_error"),
    503: ("service_unavailable_error", "server_overloaded"),
}
"""HTTP status → error type and code."""
STATUSES = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "overloaded_error": 503,
    "service_unavailable_error": 503,
    "invalid_request_error": 400,
}


def error(refusal: Refusal) -> Json:
    """The body of an error."""
    return {"error": {"message": refusal.message, "type": refusal.type, "param": refusal.param, "code": refusal.code}}


def fault(status: int, kind: str | None, message: str | None) -> Refusal:
    """A scripted error."""
    known, code = TYPES.get(status, ("server_error", None))
    return Refusal(status, kind or known, message or f"Scripted {kind or known}", None, code)


def unreadable(fault: UnreadableRequest) -> Refusal:
    """A body the adapter could not read."""
    return invalid(f"Invalid value for '{fault.path}': {fault}", fault.path, "invalid_value")


def unknown_model(name: str, fault: UnknownModel) -> Refusal:
    """A model without a row."""
    text = f"The model `{name}` does not exist or you do not have access to it."
    return Refusal(404, "invalid_request_error", text, None, "model_not_found")
