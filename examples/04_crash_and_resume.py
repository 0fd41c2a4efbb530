"""A process dies between a side effect and its result; the next one opens the folder, finds the call and decides."""

import os
import subprocess
import sys
import tempfile

import anthropic
from provider import SYSTEM, anthropic_client, asks, says

from contextkit import AnthropicMessages, Context, tool

REPLIES = [asks(("send_mail", {"to": "Ada"})), says("The report went to Ada.")]


@tool
def send_mail(to: str) -> str:
    """Send the report to somebody."""
    return f"sent to {to}"


def opened(folder: str) -> Context:
    """The conversation in `folder`, begun or continued."""
    return Context.open(
        folder, AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system=SYSTEM, tools=[send_mail]
    )


def first_process(folder: str) -> None:
    """Ask, and die in the middle of the call."""
    context = opened(folder)
    context.user("Mail the report to Ada.", once=True)
    context.receive(context.request().send(anthropic.Anthropic()))
    for call in context.calls:
        call.run()  # notes that it begins: from here on the mail may have gone out
        os._exit(1)  # the process dies before the result is kept


def second_process(folder: str, client: anthropic.Anthropic) -> None:
    """Look what was open, settle it, go on."""
    context = opened(folder)
    for call in context.calls:
        print(f"open: {call.name}, was_started={call.was_started}")
        context.result(call, "sent to Ada (found in the outbox after a restart)" if call.was_started else call.run())
    context.receive(context.request().send(client))
    print([entry.kind for entry in context.log])
    print(context.summary())
    context.close()


if len(sys.argv) > 1:
    first_process(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as folder, anthropic_client(REPLIES) as client:
        same = {**os.environ, "ANTHROPIC_BASE_URL": str(client.base_url), "ANTHROPIC_API_KEY": client.api_key}
        died = subprocess.run([sys.executable, __file__, folder], check=False, env=same)  # noqa: S603 - this very file
        print(f"the first process ended with code {died.returncode}")
        second_process(folder, client)
