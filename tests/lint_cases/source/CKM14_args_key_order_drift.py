"""Arguments dumped again, and kept as received."""

import json


def replayed(call):
    function = {"name": call.name, "arguments": json.dumps(json.loads(call.arguments))}  # expect: CKM14
    return {"id": call.id, "type": "function", "function": function}


def replayed_sorted(call, value):
    return {"id": call.id, "function": {"name": call.name, "arguments": json.dumps(value, sort_keys=True)}}


def kept(call):
    parsed = json.loads(call.arguments)
    print(json.dumps(parsed, indent=2))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def told_of_the_state(client, state, messages):
    system = f"What is known: {json.dumps(state)}"  # expect: CKM14
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=1024, system=system, messages=messages)


def told_of_the_state_in_one_order(client, state, messages):
    system = f"What is known: {json.dumps(state, sort_keys=True)}"
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=1024, system=system, messages=messages)


def told_in_the_order_of_the_author(client, messages):
    limits = {"searches": 3, "pages": 10}
    system = f"Your limits: {json.dumps(limits)}"
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=1024, system=system, messages=messages)
