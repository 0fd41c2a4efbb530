"""Everybody who speaks Chat Completions like OpenAI: self-hosted engines and other hosts, as rows of one table."""

from contextkit.providers.openai_compatible.adapter import OpenAICompatible as OpenAICompatible
