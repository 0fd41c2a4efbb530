"""The same loop on OpenAI's Responses endpoint; `OpenAIChat` and `client.chat.completions.create` work alike."""

from provider import SYSTEM, asks, openai_client, says

from contextkit import Context, OpenAIResponses, tool


@tool
def price(item: str) -> float:
    """The price of an item in dollars."""
    return {"apple": 0.5, "pear": 0.7}[item]


REPLIES = [asks(("price", {"item": "pear"})), says("A pear costs $0.70.")]

context = Context(OpenAIResponses("gpt-6.1-sol", max_output_tokens=1024), system=SYSTEM * 2, tools=[price])
context.user("What does a pear cost?")
with openai_client(REPLIES) as client:
    while not context.finished:
        for call in context.calls:
            context.result(call, call.run())
        context.receive(client.responses.create(**context.request()))

for call in context.ledger:
    print(f"{call.model}: {call.usage}")
print(context.summary())
