"""Middleware behind the one that marks, and in front of it."""

from deepagents.middleware import MemoryMiddleware
from langchain.agents import create_agent
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware


def behind(model, tools, store):
    return create_agent(
        model=model,
        tools=tools,
        middleware=[AnthropicPromptCachingMiddleware(), MemoryMiddleware(store)],  # expect: CKS09
    )


def in_front(model, tools, store):
    return create_agent(model=model, tools=tools, middleware=[MemoryMiddleware(store), AnthropicPromptCachingMiddleware()])
