"""A fleet of workers that keep nothing: every message is handled by another process, the conversation stands in
Postgres.

python postgres_workers.py postgresql://user@host/database      (or DATABASE_URL; it makes the tables there)
"""

import os
import subprocess
import sys
import uuid

import anthropic
from provider import SYSTEM, anthropic_client, asks, says

from contextkit import AnthropicMessages, Context, Log, tool
from contextkit.errors import ConcurrentAppend, MissingExtra, StorageError
from contextkit.log.postgres import PostgresStorage, create

REPLIES = [asks(("add", {"a": 2, "b": 3})), says("2 + 3 is 5."), says("Twice that is 10."), says("You are welcome.")]
MESSAGES = ["What is 2 + 3?", "And twice that?", "Thank you."]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def opened(server: str, session: str) -> Context:
    """The conversation as it stands in the database now."""
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=1024)
    return Context(provider, system=SYSTEM, tools=[add], log=Log(PostgresStorage(server, session)))


def work(server: str, session: str, message: str) -> None:
    """What one worker does: open, say, ask, run what is called; then it is gone."""
    with opened(server, session) as context, anthropic.Anthropic() as client:
        context.user(message, once=True)  # a message is handed on again where a worker died
        while not context.finished:
            for call in context.calls:
                context.result(call, call.run())
            context.receive(context.request().send(client))
        print(f"worker {os.getpid()}: read {context.ledger[-1].usage.read} of its prompt from cache", flush=True)


def race(server: str, session: str) -> None:
    """Two workers are handed one message; the second to append is told, and nothing is said twice."""
    with opened(server, session) as one, opened(server, session) as other:
        one.user("One more thing.")
        try:
            other.user("One more thing.")
        except ConcurrentAppend as fault:
            print(f"ConcurrentAppend: {fault}")


def main(server: str) -> None:
    """Hand each message to a new process, and read what they wrote."""
    session = f"example {uuid.uuid4()}"
    try:
        create(server)
    except (MissingExtra, StorageError) as fault:
        print(f"skipped: {fault}")
        return
    with anthropic_client(REPLIES) as client:
        same = {**os.environ, "ANTHROPIC_BASE_URL": str(client.base_url), "ANTHROPIC_API_KEY": client.api_key}
        for message in MESSAGES:
            subprocess.run([sys.executable, __file__, server, session, message], check=True, env=same)  # noqa: S603 - this very file
    race(server, session)
    print([f"{entry.sequence} {entry.kind}" for entry in PostgresStorage(server, session).load()])


if len(sys.argv) == 4:
    work(*sys.argv[1:])
elif server := (sys.argv[1:] or [os.environ.get("DATABASE_URL", "")])[0]:
    main(server)
else:
    print("skipped: no Postgres server is given; set DATABASE_URL, or pass postgresql://user@host/database")
