"""A marker on the block that varies."""

import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

EPHEMERAL = {"type": "ephemeral"}
INSTRUCTIONS = Path("instructions.md").read_text()


def run(client, messages):
    return client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=1000,
        system=[
            {"type": "text", "text": INSTRUCTIONS},
            {"type": "text", "text": f"Now: {datetime.now(UTC)}", "cache_control": EPHEMERAL},  # expect: CKB02
        ],
        messages=messages,
    )


def blocks():
    text = "Run " + str(uuid.uuid4())
    return [{"type": "text", "text": text, "cache_control": EPHEMERAL}]  # expect: CKB02


def run_with_blocks(client, messages):
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=1000, system=blocks(), messages=messages)


def run_marked_later(client, messages):
    system = [{"type": "text", "text": INSTRUCTIONS}, {"type": "text", "text": f"Now: {datetime.now(UTC)}"}]  # expect: CKB02
    system[-1]["cache_control"] = EPHEMERAL
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=1000, system=system, messages=messages)


def run_marked_in_front(client, messages):
    system = [{"type": "text", "text": INSTRUCTIONS}, {"type": "text", "text": f"Now: {datetime.now(UTC)}"}]
    system[0]["cache_control"] = EPHEMERAL
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=1000, system=system, messages=messages)


def run_on_bedrock(bedrock, messages):
    system = [{"text": f"Now: {datetime.now(UTC)}"}, {"cachePoint": {"type": "default"}}]  # expect: CKB02
    return bedrock.converse(modelId="anthropic.claude-sonnet-5-5", system=system, messages=messages)


def run_stable(client, messages):
    started = time.time()
    reply = client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=1000,
        system=[{"type": "text", "text": INSTRUCTIONS, "cache_control": EPHEMERAL}],
        messages=[*messages, {"role": "user", "content": "Go on."}],
    )
    return reply, time.time() - started
