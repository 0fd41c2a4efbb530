"""A tool that comes at the second turn: it joins behind the prompt, so what was sent before is still read from the
cache.
"""

from provider import SYSTEM, anthropic_client, asks, says

from contextkit import AnthropicMessages, Context, tool
from contextkit.tools.late import call_tool


@tool
def stock(item: str) -> int:
    """How many are in the warehouse."""
    return {"apple": 12, "pear": 3}[item]


REPLIES = [
    says("I cannot look into the warehouse yet."),
    asks(("call_tool", {"name": "stock", "arguments": {"item": "pear"}})),
    says("There are 3 pears."),
]

context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system=SYSTEM * 2, tools=[call_tool])
context.user("How many pears are there?")
with anthropic_client(REPLIES) as client:
    context.receive(client.messages.create(**context.request()))
    context.user("The warehouse is connected now. How many?")
    context.late_tools([stock])
    while not context.finished:
        for call in context.calls:
            context.result(call, call.run())
        context.receive(client.messages.create(**context.request()))

for call in context.ledger:
    print(f"read {call.usage.read:>5}, written {call.usage.write_5m:>5}, fresh {call.usage.fresh}")
print("tools in the head:", [definition["name"] for definition in context.request()["tools"]])
print(context.summary())
