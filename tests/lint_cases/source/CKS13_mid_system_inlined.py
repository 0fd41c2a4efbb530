"""System messages hoisted from wherever they stand, and only the first."""


def to_anthropic(messages):
    system = " ".join(m["content"] for m in messages if m["role"] == "system")  # expect: CKS13
    return {"system": system, "messages": [m for m in messages if m["role"] != "system"]}


def collected(messages):
    system = ""
    for message in messages:
        if message["role"] == "system":
            system += message["content"]  # expect: CKS13
    return system


def to_anthropic_first(messages):
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    return {"system": system, "messages": messages[1:]}


def spoken(messages):
    return " ".join(m["content"] for m in messages if m["role"] == "user")


def build_state(messages, judge):
    return judge.ask(system="\n".join(message["content"] for message in messages if message["role"] == "system"), of=messages)
