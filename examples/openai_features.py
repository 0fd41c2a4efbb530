"""OpenAI's Responses with tools it searches for, a tool called with text, and replies of a form that changes on the
way: one head.
"""

from provider import SYSTEM, asks, openai_client, says
from pydantic import BaseModel

from contextkit import Context, Grammar, OpenAIResponses, tool
from contextkit.providers.reply_form import OutputChanged
from contextkit.tools.late import tool_search


class Order(BaseModel):
    """What is to be ordered."""

    item: str
    count: int


@tool(format=Grammar.lark('start: "SELECT " /[a-z, ]+/ " FROM stock"'))
def query(statement: str) -> str:
    """Ask the warehouse's database."""
    return "pear 3, apple 12"


@tool
def supplier(item: str) -> str:
    """Who delivers an item."""
    return f"{item}s come from Orchard & Sons"


REPLIES = [
    {"parts": [{"type": "call", "name": "query", "arguments": "SELECT item, count FROM stock"}]},
    asks(("tool_search", {"query": "who delivers"})),
    asks(("supplier", {"item": "pear"})),
    says('{"item": "pear", "count": 9}'),
    says("Nine pears from Orchard & Sons, so that there are twelve of each."),
]

provider = OpenAIResponses("gpt-6.1-sol", max_output_tokens=1024, output=Order, prompt_cache_key="auto")
context = Context(provider, system=SYSTEM * 2, tools=[query, tool_search([supplier])])
heads = set()
with openai_client(REPLIES) as client:
    for text, change in (("What do we order?", None), ("Why?", OutputChanged(None))):
        context.user(text)
        if change is not None:
            context.notice(change)
        while not context.finished:
            for call in context.calls:
                print(f"{call.name}({call.arguments!r})")
                context.result(call, call.run())
            request = context.request()
            heads.add(str((request["tools"], request["input"][0], request["text"])))
            context.receive(client.responses.create(**request))
        print(context.last_text if change else context.parsed())

print(f"{len(heads)} head for {len(context.ledger)} calls")
for call in context.ledger:
    print(f"read {call.usage.read:>5}, written {call.usage.write_5m:>5}, fresh {call.usage.fresh}")
print(context.summary())
