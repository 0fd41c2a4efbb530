"""A salt that no two calls share."""

import secrets
import uuid

MODEL = "Qwen/Qwen3-32B"


def ask(client, messages):
    return client.chat.completions.create(
        model=MODEL,
        messages=messages,
        extra_body={"cache_salt": secrets.token_hex(16)},  # expect: CKE03
    )


def body(messages):
    salt = str(uuid.uuid4())  # expect: CKE03
    return {"model": MODEL, "messages": messages, "cache_salt": salt}


def ask_for_tenant(client, messages, tenant):
    return client.chat.completions.create(model=MODEL, messages=messages, extra_body={"cache_salt": tenant.salt})


class Salted:
    def __init__(self, client):
        self.client = client
        self.salt = secrets.token_hex(16)

    def ask(self, messages):
        extra = {"cache_salt": f"{self.salt}-{uuid.uuid4()}", "top_k": 20}  # expect: CKE03
        return self.client.chat.completions.create(model=MODEL, messages=messages, extra_body=extra)


def ask_with_a_request_id(client, messages):
    extra = {"request_id": uuid.uuid4().hex}
    return client.chat.completions.create(model=MODEL, messages=messages, extra_body=extra)


def ask_by_conversation(client, messages, conversation):
    extra = {"cache_salt": f"conversation-{conversation.id}"}
    return client.chat.completions.create(model=MODEL, messages=messages, extra_body=extra)
