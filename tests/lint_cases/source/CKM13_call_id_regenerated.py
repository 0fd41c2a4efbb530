"""Ids made up on replay, and where a call is made."""

import hashlib
import uuid


def to_wire(turn):
    call_id = f"call_{uuid.uuid4().hex[:12]}"
    return [
        {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": turn.call}]},  # expect: CKM13
        {"role": "tool", "tool_call_id": call_id, "content": turn.result},  # expect: CKM13
    ]


def to_wire_kept(turn):
    return [
        {"role": "assistant", "tool_calls": [{"id": turn.call_id, "type": "function", "function": turn.call}]},
        {"role": "tool", "tool_call_id": turn.call_id, "content": turn.result},
    ]


def convert_dict_to_message(answer):
    calls = [{"id": str(uuid.uuid4()), "type": "function", "function": answer["function_call"]}]
    return {"role": "assistant", "tool_calls": calls, "finish_reason": answer["finish_reason"]}


def parse(text):
    return {"id": f"call_{uuid.uuid4().hex[:12]}", "type": "function", "function": {"name": text, "arguments": "{}"}}


def format_tool_message(call, tool_call_id=None):
    if tool_call_id is None:
        tool_call_id = str(uuid.uuid4())
    return {"role": "tool", "tool_call_id": tool_call_id, "content": call.result}


def format_block(block):
    out = {"document": {"format": block["format"], "source": {"bytes": block["data"]}}}
    out["document"]["name"] = uuid.uuid4().hex[:12]  # expect: CKM13
    return out


def format_document(block):
    return {"type": "document", "source": block["data"], "title": f"doc-{uuid.uuid4()}"}  # expect: CKM13


def format_by_its_bytes(block):
    return {"type": "document", "source": block["data"], "title": f"doc-{hashlib.sha256(block['data']).hexdigest()}"}


def uploaded(data):
    return {"type": "document", "source": data, "title": f"doc-{uuid.uuid4()}"}


def to_content_block(data):
    return {"type": "document", "source": data, "title": f"{uuid.uuid4()}"}


def convert(message):
    return {"id": message.call_id or str(uuid.uuid4()), "type": "function", "function": message.function}  # expect: CKM13


def convert_stored(message):
    return {"id": message.call_id, "type": "function", "function": message.function}


def converse(bedrock, history):
    messages = []
    for message in history:
        blocks = [{"document": {"name": uuid.uuid4().hex, "format": "pdf", "source": {"bytes": file.data}}} for file in message.files]  # expect: CKM13
        messages.append({"role": message.role, "content": blocks})
    return bedrock.converse(messages=messages)


def attach(history, data):
    known = [message["id"] for message in history]
    document = {"document": {"name": uuid.uuid4().hex, "format": "pdf", "source": {"bytes": data}}}
    history.append({"role": "user", "content": [document], "after": known})
