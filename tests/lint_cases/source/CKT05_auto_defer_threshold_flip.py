"""A limit that decides per request, and one that decides once."""

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
