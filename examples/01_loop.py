"""The whole loop: say something, send, keep the reply, run its calls, until the model is done."""

from provider import SYSTEM, anthropic_client, asks, says

from contextkit import AnthropicMessages, Context, tool


@tool
def price(item: str) -> float:
    """The price of an item in dollars."""
    return {"apple": 0.5, "pear": 0.7}[item]


REPLIES = [
    asks(("price", {"item": "apple"}), ("price", {"item": "fig"})),
    says("An apple costs $0.50; figs are not in the list."),
]

context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system=SYSTEM, tools=[price])
context.user("What do an apple and a fig cost?")
with anthropic_client(REPLIES) as client:
    for step in context.run(client):  # what a tool raises becomes an error the model can read
        print(f"step {step.number}: {[call.name for call in step.calls] or step.text}")

for entry in context.log:
    print(f"{entry.sequence} {entry.kind:<10} {len(entry.body):>6} bytes")
print(context.summary())
