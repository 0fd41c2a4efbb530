"""A reply on its way into the log: billed first, whatever becomes of it.

Takes what an SDK returned and the request it answers, gives the body of the entry to be. Knows nothing of logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.errors import InvalidCall, UnreadableReply
from contextkit.providers.adoption import billed, received, understood
from contextkit.providers.parameters import is_prewarm
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request
from contextkit.providers.stateful.reasoning import seen
from contextkit.simulator.account import Account


def take(
    response: Any, request: Request, provider: Provider, account: Account, check: Callable[[str, Json], None], first_byte_at: float | None
) -> Json | None:
    """The body of the entry that keeps `response`, once its bill is in the ledger; `check` says whether it may come next.

    None for the reply to a prewarm: it filled the cache and says nothing.

    Raises `UnreadableReply` and what `check` raises; the bill is in the ledger then too, as far as the response says it.
    """
    try:
        reply = understood(provider, response)
    except UnreadableReply:
        _unkept(request)
        name, usage = billed(provider, response)
        if usage != Usage():
            account.unkept(request, name, usage, "unreadable", first_byte_at)
        raise
    read = seen(request, provider, reply.withheld)
    account.told(reply.id, read.reasons)
    request = read.request
    if is_prewarm(request.params):
        account.received(request, reply, first_byte_at)
        return None
    body = {**received(reply, request.after), **({"withheld": list(read.withheld)} if read.withheld else {})}
    body |= request.continued.stored(request.model.name, reply.id) if request.continued else {}
    try:
        check("assistant", body)
    except InvalidCall:
        _unkept(request)
        account.unkept(request, reply.id, reply.usage, "not kept", first_byte_at)
        raise
    account.received(request, reply, first_byte_at)
    return body


def _unkept(request: Request) -> None:
    """The server may keep a reply that the log does not."""
    if request.continued is not None:
        request.continued.failed("not kept")
