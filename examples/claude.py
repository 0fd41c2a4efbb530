"""Claude with context editing: what each clearing costs is known before it is sent, and billed as predicted."""

from provider import SYSTEM, anthropic_client, asks, says

from contextkit import AnthropicMessages, Context, tool


@tool
def page(number: int) -> str:
    """One page of the report."""
    return f"page {number}: " + "figures and footnotes. " * 80


CLEAR = {
    "type": "clear_tool_uses_20250919",
    "trigger": {"type": "tool_uses", "value": 3},
    "keep": {"type": "tool_uses", "value": 1},
    "clear_at_least": {"type": "input_tokens", "value": 1_000},
}
REPLIES = [*(asks(("page", {"number": number})) for number in range(6)), says("Six pages, read.")]

provider = AnthropicMessages(
    "claude-opus-5-5", max_tokens=1024, betas=["context-management-2025-06-27"], context_management={"edits": [CLEAR]}
)
context = Context(provider, system=SYSTEM, tools=[page])
context.user("Read the report, page by page.")
with anthropic_client(REPLIES) as client:
    while not context.finished:
        for call in context.calls:
            context.result(call, call.run())
        request = context.request()
        reply = client.messages.create(**request)
        context.receive(reply, request)
        cleared = sum(edit["cleared_tool_uses"] for edit in reply.context_management["applied_edits"])
        told = f"{cleared} results cleared, {request.predicted.read:,} tokens predicted from cache"
        print(f"{told}, {reply.usage.cache_read_input_tokens:,} billed, {request.predicted.write_5m:,} written")
print(context.summary())
