"""The provider and model of a call, from the names that gateways and tracers use; prices are looked up under the id.

Takes a provider's name in anybody's words and a model's, gives a provider's id and the model's own name. Knows no
format.
"""

from __future__ import annotations

from functools import lru_cache

from contextkit.facts.load import is_provider, provider_id
from contextkit.importers.billed import provider_of

UNKNOWN = "unknown"
"""The model of a call that names none."""


@lru_cache(maxsize=1024)
def provider_and_model(provider: str, model: str) -> tuple[str, str]:
    """The provider's id and the model's own name; the provider is empty where neither name tells.

    >>> provider_and_model("aws.bedrock", "anthropic.claude-opus-5"), provider_and_model("", "openai/gpt-5.2")
    (('aws', 'anthropic.claude-opus-5'), ('openai', 'gpt-5.2'))
    >>> provider_and_model("openrouter", "openai/gpt-5.2")
    ('openrouter', 'openai/gpt-5.2')
    """
    known = provider_id(provider)
    prefix, slash, rest = model.partition("/")
    prefixed = provider_id(prefix)
    if slash and known in ("", prefixed) and is_provider(prefixed):
        return prefixed, rest
    return known or (provider_of("", "", "", model) if model else ""), model or UNKNOWN
