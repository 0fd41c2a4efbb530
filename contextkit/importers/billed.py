"""The provider that billed a recorded call.

Takes an address, an endpoint and a model, gives the id prices are looked up under.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from contextkit.facts.load import is_provider, provider_id
from contextkit.models import find_model, model_named

_ENDPOINTS = {
    "gemini": "google",
    "bedrock_converse": "aws",
    "deepseek": "deepseek",
    "openrouter_generation": "openrouter",
}
"""Endpoint, or names of its counters → the only provider that has it."""
_CLOUDS = {"bedrock-2023-05-31": "aws", "vertex-2023-10-16": "google"}
"""`anthropic_version` of a body → the cloud that takes it."""
_NAMED = re.compile(r"/(?:models?|deployments)/+((?:[^/:?%]|%(?!3a))+)", re.IGNORECASE)
_PROJECT = re.compile(r"/projects/([^/?]+)/locations/([^/?]+)/")
_REGIONAL = re.compile(r"/model/+([^/?]+)/+(?:converse|invoke)", re.IGNORECASE)


@lru_cache(maxsize=1024)
def provider_of(url: str, name: str, endpoint: str, model: str, version: str = "") -> str:
    """The id prices are looked up under: by who was called, then by the name a recorder gives, the endpoint, the model.

    Empty where none of them tells.

    >>> provider_of("https://api.openai.com/v1/responses", "", "openai_responses", "gpt-5.1")
    'openai'
    >>> provider_of("", "", "gemini", "gemini-2.5-pro"), provider_of("", "xAI", "openai_chat", "my-model")
    ('google', 'x-ai')
    """
    of_endpoint = _ENDPOINTS.get(endpoint, "") or _CLOUDS.get(version, "")
    return _by_address(url) or _by_name(name) or of_endpoint or _by_model(model, endpoint)


def requested_model(fields: Mapping[str, Any], path: str) -> str:
    """The model that a call requests, in its body or in its path.

    >>> requested_model({}, "/v1beta/models/gemini-2.5-pro:generateContent")
    'gemini-2.5-pro'
    """
    return str(fields.get("model") or model_in(path)).removeprefix("models/")


def provider_of_request(url: str, fields: Mapping[str, Any], endpoint: str, model: str) -> str:
    """As `provider_of`, of a call whose body is at hand."""
    return provider_of(url, "", endpoint, model, str(fields.get("anthropic_version") or ""))


def host_in(url: str) -> str:
    """The host that an address names, with its port; empty where it names none.

    >>> host_in("https://user:secret@api.openai.com/v1/responses"), host_in("http://localhost:8080"), host_in("/v1")
    ('api.openai.com', 'localhost:8080', '')
    """
    found = _HOST.match(url)
    return found[1].lower() if found else ""


_HOST = re.compile(r"https?://(?:[^/@]*@)?([^/?#]+)", re.IGNORECASE)


def _by_address(url: str) -> str:
    from genai_prices.data_snapshot import get_snapshot

    parts = urlsplit(url if "://" in url else f"https://{url}") if url else None
    if parts is None or not parts.hostname:
        return ""
    try:
        return get_snapshot().find_provider(None, None, f"https://{parts.hostname}{parts.path}").id
    except LookupError:
        return ""


def _by_name(given: str) -> str:
    from genai_prices.data_snapshot import get_snapshot

    name = provider_id(given)
    return name if is_provider(name) or any(one.id == name for one in get_snapshot().providers) else ""


def _by_model(model: str, endpoint: str) -> str:
    from genai_prices.data_snapshot import get_snapshot

    row = find_model(model) if model else None
    if row is not None and "/" not in model:
        return model_named(model).provider
    if endpoint == "anthropic_messages" and (not model or "claude" in model):
        return "aws" if "anthropic." in model else "anthropic"
    if "/" in model:
        return "openrouter"
    try:
        return get_snapshot().find_provider(model, None, None).id if model else ""
    except LookupError:
        return ""


def cloud_in(url: str) -> tuple[str, str]:
    """The project and the region an address names, as Google Cloud's do; empty where there is none.

    >>> cloud_in("https://aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/google/models/gemini-2.5-pro:generateContent")
    ('p', 'europe-west1')
    """
    match = _PROJECT.search(url)
    return (unquote(match[1]), unquote(match[2])) if match else ("", "")


def model_in(url: str) -> str:
    """The model an address names, as Gemini's, Bedrock's and Azure's do; empty where there is none.

    >>> model_in("https://bedrock-runtime.eu-west-1.amazonaws.com/model/eu.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse")
    'eu.anthropic.claude-haiku-4-5-20251001-v1:0'
    """
    match = _REGIONAL.search(url) or _NAMED.search(url)
    return unquote(match[1]) if match else ""
