"""The provider and model of a call, from the names that gateways and tracers use; prices are looked up under the id.

Takes a provider's name in anybody's words and a model's, gives a provider's id and the model's own name. Knows no
format.
"""

from __future__ import annotations

from functools import lru_cache

from contextkit.importers.billed import provider_of

UNKNOWN = "unknown"
"""The model of a call that names none."""
PROVIDERS: dict[str, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "azure": "azure",
    "azure_ai": "azure",
    "azure_openai": "azure",
    "azure.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "az.ai.openai": "azure",
    "az.ai.inference": "azure",
    "text-completion-openai": "openai",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "aws.bedrock": "aws",
    "aws_bedrock": "aws",
    "amazon_bedrock": "aws",
    "amazon-bedrock": "aws",
    "aws": "aws",
    "gemini": "google",
    "google": "google",
    "google_genai": "google",
    "google_vertexai": "google",
    "vertex_ai": "google",
    "vertex_ai_beta": "google",
    "google-gla": "google",
    "google-vertex": "google",
    "google-vertex-anthropic": "google",
    "gcp.gemini": "google",
    "gcp.vertex_ai": "google",
    "gcp.gen_ai": "google",
    "vertexai": "google",
    "x_ai": "x-ai",
    "xai": "x-ai",
    "x-ai": "x-ai",
    "grok": "x-ai",
    "groq": "groq",
    "mistral": "mistral",
    "mistral_ai": "mistral",
    "mistralai": "mistral",
    "deepseek": "deepseek",
    "cohere": "cohere",
    "cohere_chat": "cohere",
    "moonshot": "moonshotai",
    "moonshotai": "moonshotai",
    "moonshot_ai": "moonshotai",
    "fireworks_ai": "fireworks",
    "fireworks": "fireworks",
    "together_ai": "together",
    "together": "together",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "zai": "zai",
    "z.ai": "zai",
    "cerebras": "cerebras",
    "minimax": "minimax",
    "novita": "novita",
    "databricks": "databricks",
    "github_copilot": "github-copilot",
    "openai_responses": "openai",
    "openai-responses": "openai",
    "openai-native": "openai",
    "openai.chat": "openai",
    "openai.responses": "openai",
    "anthropic.messages": "anthropic",
}
"""Name in LiteLLM (`custom_llm_provider`), OpenTelemetry (`gen_ai.provider.name`, `gen_ai.system`), LangChain
(`ls_provider`) or pydantic-ai → id in genai-prices."""


@lru_cache(maxsize=1024)
def provider_and_model(provider: str, model: str) -> tuple[str, str]:
    """The provider's id and the model's own name; the provider is empty where neither name tells.

    >>> provider_and_model("aws.bedrock", "anthropic.claude-opus-5"), provider_and_model("", "openai/gpt-5.2")
    (('aws', 'anthropic.claude-opus-5'), ('openai', 'gpt-5.2'))
    >>> provider_and_model("openrouter", "openai/gpt-5.2")
    ('openrouter', 'openai/gpt-5.2')
    """
    name = provider.strip().lower()
    known = PROVIDERS.get(name, name)
    prefix, slash, rest = model.partition("/")
    prefixed = PROVIDERS.get(prefix.lower()) if slash else None
    if prefixed and known in ("", prefixed):
        return prefixed, rest
    return known or (provider_of("", "", "", model) if model else ""), model or UNKNOWN
