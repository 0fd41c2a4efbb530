"""Images that were sent give way to words, and images left out before."""


def prune_images(messages, keep=2):
    for message in messages[:-keep]:
        for block in message["content"]:
            if block["type"] == "image":
                block.clear()  # expect: CKM18
                block.update(type="text", text="[screenshot removed]")  # also: CKM18


def old_screens(client, messages):
    for message in messages[:-4]:
        message["content"] = "[image omitted]"  # expect: CKM18
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)


def user_message(text, images):
    parts = [{"type": "image", "source": image} for image in images[:4]]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text or "[image omitted]"}]}


def count_images(messages):
    return sum(block["type"] == "image" for message in messages for block in message["content"])


def only_the_newest(client, messages):
    for message in messages[:-1]:
        message["content"] = [part for part in message["content"] if part["type"] != "image"]  # expect: CKM18
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)


def without_images(client, messages):
    for message in messages:  # every one, each time: no request ever holds an image
        message["content"] = [part for part in message["content"] if part["type"] != "image"]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)


def export(messages):
    for message in messages[:-1]:
        message["content"] = [part for part in message["content"] if part["type"] != "image"]
