"""A marker behind a sentence."""

MODEL = "claude-haiku-4-5"
SHORT = "Sort the parcel into one of five classes."


def classify(client, parcel):
    return client.messages.create(
        model=MODEL,
        max_tokens=10,
        system=[{"type": "text", "text": SHORT, "cache_control": {"type": "ephemeral"}}],  # expect: CKB11
        messages=[{"role": "user", "content": parcel}],
    )


def classify_with_tools(client, parcel, tools):
    return client.messages.create(
        model=MODEL,
        max_tokens=10,
        tools=tools,
        system=[{"type": "text", "text": SHORT, "cache_control": {"type": "ephemeral"}}],
        messages=[{"role": "user", "content": parcel}],
    )


def classify_with_rules(client, parcel, rules):
    return client.messages.create(
        model=MODEL,
        max_tokens=10,
        system=[{"type": "text", "text": SHORT}, {"type": "text", "text": rules, "cache_control": {"type": "ephemeral"}}],
        messages=[{"role": "user", "content": parcel}],
    )


def chat(client, messages):
    return client.messages.create(
        model=MODEL,
        max_tokens=10,
        system=[{"type": "text", "text": SHORT, "cache_control": {"type": "ephemeral"}}],
        messages=messages,
    )


class Sorter:
    def __init__(self, client):
        self.client = client

    async def sort(self, parcel):
        block = {"type": "text", "text": SHORT, "cache_control": {"type": "ephemeral"}}  # expect: CKB11
        return await self.client.messages.create(model=MODEL, max_tokens=10, system=[block], messages=[{"role": "user", "content": parcel}])
