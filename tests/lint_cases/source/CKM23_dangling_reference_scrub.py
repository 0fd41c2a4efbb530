"""A notice over what was sent, and one for a call that fails now."""


def scrub(messages, registry):
    for message in messages:
        for block in message["content"]:
            if block["type"] == "tool_result" and block["name"] not in registry:
                block["content"] = "The tool that gave this result is no longer available."  # expect: CKM23


def run(messages, call, registry):
    if call.name not in registry:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "This tool is not available."})
