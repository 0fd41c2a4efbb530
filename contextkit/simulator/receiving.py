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
    response: Any,
    request: Request,
    provider: Provider,
    account: Account,
    check: Callable[[str, Json], None],
    is_kept: Callable[[Json], bool],
    first_byte_at: float | None,
) -> dict[str, Json] | bool:
    """The body of the entry that keeps `response`, once its bill is in the ledger.

    `check` says whether it may come next.

    True where the log ends with that body already, as `is_kept` says: whoever received it died before learning of that.
    False for the reply to a prewarm: it filled the cache and says nothing.

    Raises `UnreadableReply` and what `check` raises; the bill is in the ledger then too, as far as the response says
    it.
    """
    try:
        reply = understood(provider, response)
    except UnreadableReply as fault:
        _unkept(request)
        name, usage = billed(provider, response)
        if usage != Usage():
            account.unkept(request, response, name, usage, "unreadable", first_byte_at)
            account.settled(request, fault)
        raise
    asked, read = request, seen(request, provider, reply.withheld)
    request = read.request
    if is_prewarm(request.params):
        account.told(reply.id, read.reasons)
        account.received(request, reply, response, first_byte_at)
        return False
    body = {**received(reply, request.after), **({"withheld": list(read.withheld)} if read.withheld else {})}
    body |= request.continued.stored(request.model.name, reply.id) if request.continued else {}
    if account.was_billed_before(reply.id, reply.usage) and is_kept(body):
        return True
    account.told(reply.id, read.reasons)
    try:
        check("assistant", body)
    except InvalidCall as fault:
        _unkept(request)
        account.unkept(request, response, reply.id, reply.usage, "not kept", first_byte_at)
        account.settled(asked, fault)
        raise
    account.received(request, reply, response, first_byte_at)
    return body


def _unkept(request: Request) -> None:
    """The server may keep a reply that the log does not."""
    if request.continued is not None:
        request.continued.failed("not kept")
