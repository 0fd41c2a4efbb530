"""Middleware behind the one that marks, and in front of it."""

from deepagents.middleware import FilesystemMiddleware, MemoryMiddleware, SkillsMiddleware
from langchain.agents import create_agent
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware


def behind(model, tools, store):
    return create_agent(
        model=model,
        tools=tools,
        middleware=[AnthropicPromptCachingMiddleware(), SkillsMiddleware(store)],  # expect: CKS09
    )


def in_front(model, tools, store):
    return create_agent(model=model, tools=tools, middleware=[SkillsMiddleware(store), AnthropicPromptCachingMiddleware()])


def built(model, tools, memory, middleware=()):
    agent_middleware = [FilesystemMiddleware()]
    if memory:
        agent_middleware.append(MemoryMiddleware(memory))  # expect: CKS09
    agent_middleware.extend([AnthropicPromptCachingMiddleware()])
    if middleware:
        agent_middleware.extend(middleware)  # expect: CKS09
    return create_agent(model=model, tools=tools, middleware=agent_middleware)


def built_in_order(model, tools, memory, middleware=()):
    agent_middleware = [FilesystemMiddleware()]
    agent_middleware.extend(middleware)
    agent_middleware.append(AnthropicPromptCachingMiddleware())
    if memory:
        agent_middleware.append(MemoryMiddleware(memory))
    return create_agent(model=model, tools=tools, middleware=agent_middleware)


def built_in_a_loop(model, tools, sources, middleware=()):
    stack = []
    for source in sources:
        stack.append(SkillsMiddleware(source))
        if source.is_last:
            stack += []
    stack.append(AnthropicPromptCachingMiddleware())
    for one in middleware:
        stack.append(one)
    return create_agent(model=model, tools=tools, middleware=stack)


class Factory:
    def __init__(self, model, tools, store):
        self.model, self.tools, self.store = model, tools, store

    def make(self):
        stack = [AnthropicPromptCachingMiddleware()]
        stack.append(SkillsMiddleware(self.store))  # expect: CKS09
        return create_agent(model=self.model, tools=self.tools, middleware=stack)
