"""A warm-up without the tools."""

MODEL = "claude-sonnet-5-5"
TOOLS = [{"name": "look", "description": "Look.", "input_schema": {"type": "object"}}]
ADAPTIVE = {"type": "adaptive"}


def prewarm(client, system):
    client.messages.create(  # expect: CKL09
        model=MODEL, max_tokens=0, system=system, messages=[{"role": "user", "content": "hi"}], cache_control={"type": "ephemeral"}
    )


def prewarm_like_it(client, system):
    client.messages.create(
        model=MODEL, max_tokens=0, system=system, tools=TOOLS, messages=[{"role": "user", "content": "hi"}],
        cache_control={"type": "ephemeral"},
    )


def is_key_valid(client):
    client.messages.create(
        model=MODEL, max_tokens=1, messages=[{"role": "user", "content": "hi"}], cache_control={"type": "ephemeral"}
    )


def ask(client, system, messages):
    return client.messages.create(
        model=MODEL, max_tokens=4096, system=system, tools=TOOLS, messages=messages, cache_control={"type": "ephemeral"}
    )
