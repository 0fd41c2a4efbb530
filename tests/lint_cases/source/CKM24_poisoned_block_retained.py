"""A block left out of one request, and taken out for good."""

import anthropic

client = anthropic.Anthropic()


def ask(messages):
    try:
        return client.messages.create(model="claude-opus-4-5", max_tokens=2048, messages=messages)
    except anthropic.BadRequestError:
        without = [{**m, "content": [b for b in m["content"] if b["type"] != "image"]} for m in messages]  # expect: CKM24
        return client.messages.create(model="claude-opus-4-5", max_tokens=2048, messages=without)


def ask_and_keep(messages):
    try:
        return client.messages.create(model="claude-opus-4-5", max_tokens=2048, messages=messages)
    except anthropic.BadRequestError:
        messages[:] = [m for m in messages if not m.get("poisoned")]
        return client.messages.create(model="claude-opus-4-5", max_tokens=2048, messages=messages)


def no_images(messages):
    return [{**m, "content": [b for b in m["content"] if b["type"] != "image"]} for m in messages]


def take_images_out(messages):
    for message in messages:
        message["content"] = [block for block in message["content"] if block["type"] != "image"]
    return messages


def ask_with_a_helper(client, messages):
    try:
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)
    except anthropic.BadRequestError:
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=no_images(messages))  # expect: CKM24


def ask_and_keep_by_a_helper(client, messages):
    try:
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)
    except anthropic.BadRequestError:
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=take_images_out(messages))


def ask_bedrock(bedrock, messages):
    try:
        return bedrock.converse(modelId="anthropic.claude-opus-4-5", messages=messages)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationException":
            raise
        without = [{**m, "content": [b for b in m["content"] if "document" not in b]} for m in messages]  # expect: CKM24
        return bedrock.converse(modelId="anthropic.claude-opus-4-5", messages=without)


def ask_bedrock_once_more(bedrock, messages):
    try:
        return bedrock.converse(modelId="anthropic.claude-opus-4-5", messages=messages)
    except ClientError:
        without = [m for m in messages if m["content"]]
        return bedrock.converse(modelId="anthropic.claude-opus-4-5", messages=without)
