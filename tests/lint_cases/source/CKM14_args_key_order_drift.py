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
