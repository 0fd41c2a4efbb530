"""The long lifetime behind the short one."""

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def ask(client, instructions, question):
    return client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=900,
        system=[{"type": "text", "text": instructions, "cache_control": SHORT}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": question, "cache_control": LONG}]},  # expect: CKB09
        ],
    )


def body(tools, instructions, messages):
    system = [
        {"type": "text", "text": instructions, "cache_control": {"type": "ephemeral", "ttl": "5m"}},
        {"type": "text", "text": "Be brief.", "cache_control": LONG},  # expect: CKB09
    ]
    return {"model": "claude-sonnet-5-5", "max_tokens": 900, "tools": tools, "system": system, "messages": messages}


def ask_in_order(client, instructions, question):
    return client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=900,
        system=[{"type": "text", "text": instructions, "cache_control": LONG}],
        messages=[{"role": "user", "content": [{"type": "text", "text": question, "cache_control": SHORT}]}],
    )


def ask_as_told(client, instructions, question, marker):
    return client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=900,
        system=[{"type": "text", "text": instructions, "cache_control": marker}],
        messages=[{"role": "user", "content": [{"type": "text", "text": question, "cache_control": LONG}]}],
    )


def ask_with_tools(client, tools, instructions, messages):
    marked = [*tools[:-1], {**tools[-1], "cache_control": SHORT}]
    return client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=900,
        tools=marked,
        system=[{"type": "text", "text": instructions, "cache_control": {"type": "ephemeral", "ttl": "1h"}}],  # expect: CKB09
        messages=messages,
    )
