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


def split(messages):
    system_parts, rest = [], []
    for message in messages:
        if message["role"] == "system":
            system_parts.append(message["content"])  # expect: CKS13
        else:
            rest.append(message)
    return "\n".join(system_parts), rest


def to_blocks(client, messages):
    system = [{"text": message["content"]} for message in messages if message["role"] == "system"]  # expect: CKS13
    return client.converse(modelId="claude", system=system, messages=[message for message in messages if message["role"] != "system"])


def from_langchain(messages):
    return "\n".join(message.content for message in messages if isinstance(message, SystemMessage))  # expect: CKS13


def split_off_the_first(messages):
    system_parts = []
    for message in messages:
        if message["role"] == "system":
            system_parts.append(message["content"])
            break
    return "\n".join(system_parts)


def kept_apart(messages):
    system_messages, rest = [], []
    for message in messages:
        if message["role"] == "system":
            system_messages.append(message)
        else:
            rest.append(message)
    return [*system_messages[:1], *rest]


def show(messages):
    print("\n".join(message["content"] for message in messages if message["role"] == "system"))


def only_questions(messages):
    return "\n".join(message.content for message in messages if isinstance(message, HumanMessage))


def into_the_last(messages):
    system_messages, rest = [], []
    for message in messages:
        if message["role"] == "system":
            system_messages.append(message["content"])
        else:
            rest.append(message)
    said = ",".join(system_messages)
    rest[-1]["content"] = said + rest[-1]["content"]
    return rest


def merged_where_they_begin(messages):
    system_text, last, rest = "", -1, []
    for at, message in enumerate(messages):
        if isinstance(message, SystemMessage):
            if last not in {-1, at - 1}:
                raise ValueError("system messages stand apart")
            system_text += message.content
            last = at
        else:
            rest.append(message)
    return [system_text, *rest]
