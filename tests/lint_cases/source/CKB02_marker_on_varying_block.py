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
    return [{"type": "text", "text": "Run " + str(uuid.uuid4()), "cache_control": EPHEMERAL}]  # expect: CKB02


def run_stable(client, messages):
    started = time.time()
    reply = client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=1000,
        system=[{"type": "text", "text": INSTRUCTIONS, "cache_control": EPHEMERAL}],
        messages=[*messages, {"role": "user", "content": "Go on."}],
    )
    return reply, time.time() - started
