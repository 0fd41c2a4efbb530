"""A streamed reply: events pass through and the turn is kept at the end; a stream that is cut is billed and never kept."""

import anthropic
import httpx2
from provider import SYSTEM, anthropic_client, says

from contextkit import AnthropicMessages, Context, ContextKitError

REPLIES = [
    {**says("This one will be cut."), "fault": {"kind": "cut", "after_parts": 1}},
    says("A prefix is what two prompts share."),
]
BROKEN = (ContextKitError, anthropic.APIError, httpx2.HTTPError)
"""A stream that ends too early, an error of the provider, a connection that is lost."""

context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system=SYSTEM)
context.user("In one sentence: what is a prefix?")
with anthropic_client(REPLIES) as client:
    while not context.finished:
        try:
            for event in context.stream(context.request().stream(client)):
                if event.type == "content_block_delta" and event.delta.type == "text_delta":
                    print(event.delta.text, end="", flush=True)
            print()
        except BROKEN as error:
            print(f"\n{type(error).__name__}: nothing was kept, asking again")

print([entry.kind for entry in context.log])
for call in context.ledger:
    print(f"read {call.usage.read}, written {call.usage.write_5m}, error {call.error}")
