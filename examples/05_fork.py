"""Branches: undo and ask something else.

A branch shares the bytes up to the fork, so the shared prefix is read from cache.
"""

from provider import SYSTEM, anthropic_client, says

from contextkit import AnthropicMessages, Context

REPLIES = [says("Red, green or blue."), says("Red it is."), says("Blue it is.")]

context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system=SYSTEM)
with anthropic_client(REPLIES) as client:
    context.user("Which colours are there?")
    choice = context.receive(context.request().send(client))

    context.user("Take red.")
    context.receive(context.request().send(client))

    branch = context.fork(at=choice)  # everything up to and including that reply
    branch.user("Take blue.")
    branch.receive(branch.request().send(client))

for name, one in (("trunk", context), ("branch", branch)):
    usage = one.ledger[-1].usage
    print(f"{name}: last call read {usage.read} tokens of {usage.prompt} from cache")
print("shared entries:", sum(a.digest == b.digest for a, b in zip(context.log, branch.log, strict=False)))
