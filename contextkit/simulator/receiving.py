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
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request
from contextkit.simulator.account import Account


def take(
    response: Any, request: Request, provider: Provider, account: Account, check: Callable[[str, Json], None], first_byte_at: float | None
) -> Json | None:
    """The body of the entry that keeps `response`, once its bill is in the ledger; `check` says whether it may come next.

    None for the reply to a prewarm (`max_tokens=0`): it filled the cache and says nothing.

    Raises `UnreadableReply` and what `check` raises; the bill is in the ledger then too, as far as the response says it.
    """
    try:
        reply = understood(provider, response)
    except UnreadableReply:
        name, usage = billed(provider, response)
        if usage != Usage():
            account.unkept(request, name, usage, "unreadable", first_byte_at)
        raise
    if request.params.get("max_tokens") == 0:
        account.received(request, reply, first_byte_at)
        return None
    body = received(reply, request.after)
    try:
        check("assistant", body)
    except InvalidCall:
        account.unkept(request, reply.id, reply.usage, "not kept", first_byte_at)
        raise
    account.received(request, reply, first_byte_at)
    return body
