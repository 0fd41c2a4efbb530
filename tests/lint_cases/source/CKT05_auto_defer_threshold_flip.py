"""A limit that decides per request, and one that decides once."""

import warnings

import anthropic

client = anthropic.Anthropic()
SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
MAX_INLINE = 40


def build_tools(tools):
    if len(tools) > 40:  # expect: CKT05
        return [SEARCH, *({**tool, "defer_loading": True} for tool in tools)]
    return tools


def prepare(tools, tools_tokens):
    return [defer(tool) for tool in tools] if tools_tokens > MAX_INLINE else tools  # expect: CKT05


class Session:
    def __init__(self, tools):
        self.defers = len(tools) > MAX_INLINE
        if len(tools) > MAX_INLINE:
            self.mode = "deferred"


def check(tools):
    if len(tools) > 128:
        raise ValueError("more tools than a request may have")
    return [defer(tool) for tool in tools]


def defer(tool):
    return {**tool, "defer_loading": True}


def advise(messages, tools):
    if len(tools) > 40:
        warnings.warn("consider defer_loading for so many tools")
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def build_from(registry):
    if len(registry) > 40:  # expect: CKT05
        return [dict(tool, defer_loading=True) for tool in registry]
    return registry


def choose_page(registry):
    return registry[:40] if len(registry) > 40 else registry
