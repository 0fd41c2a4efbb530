"""A loop that keeps a `messages` list today: adopt what it has built so far and go on with a Context."""

from provider import SYSTEM, anthropic_client, says

from contextkit import AnthropicMessages, Context, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


BODY = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1024,
    "system": SYSTEM,
    "tools": [{"name": "add", "description": "Add two numbers.", "input_schema": add.parameters}],
    "messages": [
        {"role": "user", "content": "What is 2 + 3?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2, "b": 3}}],
        },
    ],
}

context = Context.from_messages(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), BODY, tools=[add])
print([entry.kind for entry in context.log], "open calls:", [call.name for call in context.calls])
for call in context.calls:
    context.result(call, call.run())
with anthropic_client([says("2 + 3 is 5.")]) as client:
    context.receive(context.request().send(client))
print(context.request()["messages"][-1]["content"][0]["text"])
