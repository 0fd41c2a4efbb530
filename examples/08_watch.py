"""The live guard: a loop of your own, and a client that tells when the prefix of a request has changed, before it
leaves.
"""

from provider import SYSTEM, anthropic_client, says

from contextkit import watch
from contextkit.watcher.notify import described

REPLIES = [says("Hi."), says("Still here."), says("Lunch time.")]
TIMES = ["10:30", "10:30", "10:31"]


def body(clock: str, messages: list[dict[str, str]]) -> dict[str, object]:
    """A request as many agents make it: the clock stands in the system prompt."""
    system = {"type": "text", "text": f"{SYSTEM}It is {clock}.", "cache_control": {"type": "ephemeral"}}
    return {"model": "claude-sonnet-5-5", "max_tokens": 200, "system": [system], "messages": messages}


messages: list[dict[str, str]] = []
with anthropic_client(REPLIES) as plain:
    client = watch(plain, on_break=lambda finding: print("!", described(finding)))
    for clock in TIMES:
        messages.append({"role": "user", "content": "What time is it?"})
        reply = client.messages.create(**body(clock, messages))
        messages.append({"role": "assistant", "content": reply.content[0].text})
        print(f"at {clock}: {reply.usage.cache_read_input_tokens} tokens read from cache")
    client.close()
