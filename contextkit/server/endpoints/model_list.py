"""The list of models that `GET /v1/models` of an endpoint answers with.

Field names: anthropic/types/model_info.py, openai/types/model.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from contextkit.canonical import Json
from contextkit.models import Model


def render_model(provider: str, model: Model) -> Json:
    """One model in the form of `provider`, `anthropic` or `openai`."""
    if provider == "openai":
        return {"id": model.name, "object": "model", "created": 0, "owned_by": "contextkit"}
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": "1970-01-01T00:00:00Z",  # the epoch stands for an unknown date
        "lifecycle": "active",
        "max_input_tokens": model.window_tokens,
    }


def render_models(provider: str, models: Sequence[Model]) -> Json:
    """The list of `models`, at least one, in the form of `provider`."""
    rows = [render_model(provider, model) for model in models]
    if provider == "openai":
        return {"object": "list", "data": rows}
    return {"data": rows, "has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]}
