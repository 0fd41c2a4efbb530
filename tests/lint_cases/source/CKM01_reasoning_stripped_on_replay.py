"""Reasoning taken out of the history at some calls, or from its older turns; and left out of what is never sent, or only shown."""


def replay(history, is_retry):
    for message in history:
        if is_retry:
            message.pop("reasoning_content", None)  # expect: CKM01
    return history


def after_switch(client, history, model, last_model):
    if model != last_model:
        history = strip_thinking(history)
    return client.messages.create(model=model, max_tokens=1024, messages=history)


def strip_thinking(history):
    return [message for message in history if message.get("type") != "thinking"]  # expect: CKM01


def shown(history):
    return [block["text"] for message in history for block in message["content"] if block["type"] != "thinking"]


def of_reply(reply):
    reply.pop("reasoning_content", None)
    return reply


def turn(client, history, text):
    for message in history:
        message.pop("reasoning_content", None)  # expect: CKM01
    history.append({"role": "user", "content": text})
    while True:
        answer = client.chat.completions.create(model="deepseek-reasoner", messages=history).choices[0].message
        history.append(answer.model_dump())
        if not answer.tool_calls:
            return answer.content


def turn_of_texts(client, history, text):
    for message in history:
        message.pop("reasoning_content", None)
    history.append({"role": "user", "content": text})
    while True:
        answer = client.chat.completions.create(model="deepseek-reasoner", messages=history).choices[0].message
        history.append({"role": "assistant", "content": answer.content, "tool_calls": answer.tool_calls})
        if not answer.tool_calls:
            return answer.content


class Chat:
    def __init__(self, client):
        self.client = client
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        before, newest = self.messages[:-2], self.messages[-2:]
        plain = [{**one, "content": [block for block in one["content"] if block["type"] != "thinking"]} for one in before]  # expect: CKM01
        return self.client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=plain + newest)


class PlainChat:
    def __init__(self, client):
        self.client = client
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        plain = [{**one, "content": [block for block in one["content"] if block["type"] != "thinking"]} for one in self.messages]
        return self.client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=plain)


def ask_without_an_effort(client, history, supports_reasoning):
    params = {"model": "gpt-5", "messages": history, "reasoning_effort": "low"}
    if not supports_reasoning:
        params = {key: value for key, value in params.items() if key != "reasoning_effort"}
    return client.chat.completions.create(**params)
