"""Arguments read with other numbers, and with JSON's own."""

import decimal
import json


def replayed(call):
    arguments = json.loads(call.function.arguments, parse_float=decimal.Decimal)  # expect: CKM30
    return {"name": call.function.name, "arguments": str(arguments)}


def kept(call):
    return {"name": call.function.name, "arguments": call.function.arguments}


def prices(path):
    return json.loads(path.read_text(), parse_float=decimal.Decimal)


def for_the_tool(call, reply, messages, pay):
    arguments = json.loads(call.function.arguments, parse_float=decimal.Decimal)
    messages.append(reply.model_dump())
    messages.append({"role": "tool", "tool_call_id": call.id, "content": pay(float(arguments["amount"]))})


def for_the_tool_and_the_history(call, messages, pay):
    arguments = json.loads(call.function.arguments, parse_float=decimal.Decimal)  # expect: CKM30
    messages.append({"role": "assistant", "arguments": json.dumps(arguments, default=str)})
    return pay(arguments["amount"])
