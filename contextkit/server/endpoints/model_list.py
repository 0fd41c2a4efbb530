"""The list of models that `GET /v1/models` of an endpoint answers with.

Field names: anthropic/types/model_info.py, openai/types/model.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from contextkit.canonical import Json
from contextkit.models import Model


def _anthropic_model(model: Model) -> dict[str, Json]:
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": "1970-01-01T00:00:00Z",  # the epoch stands for an unknown date
        "lifecycle": "active",
        "max_input_tokens": model.window_tokens,
    }


def _openai_model(model: Model) -> dict[str, Json]:
    return {"id": model.name, "object": "model", "created": 0, "owned_by": "contextkit"}


def _anthropic_page(models: list[dict[str, Json]]) -> Json:
    return {"data": models, "has_more": False, "first_id": models[0]["id"], "last_id": models[-1]["id"]}


def _openai_page(models: list[dict[str, Json]]) -> Json:
    return {"object": "list", "data": models}


_MODELS: Mapping[str, Callable[[Model], dict[str, Json]]] = {"anthropic": _anthropic_model, "openai": _openai_model}
_PAGES: Mapping[str, Callable[[list[dict[str, Json]]], Json]] = {"anthropic": _anthropic_page, "openai": _openai_page}


def render_model(provider: str, model: Model) -> Json:
    """One model in the form of `provider`, `anthropic` or `openai`."""
    return _MODELS[provider](model)


def render_models(provider: str, models: Sequence[Model]) -> Json:
    """The list of `models`, at least one, in the form of `provider`."""
    return _PAGES[provider]([_MODELS[provider](model) for model in models])
