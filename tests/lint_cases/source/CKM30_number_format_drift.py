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
