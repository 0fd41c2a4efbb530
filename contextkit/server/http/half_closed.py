"""Whether a client that has ended its side of a connection still reads.

TCP says the same of a client that shut down its writing side and of one that left: nothing more will come. Only what is
sent to one that left is answered with a reset. Used by the local provider and by the proxy; knows neither.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

_LOOK_SECONDS = 0.1


def abort_if_left(transport: asyncio.Transport, probe: Callable[[], bytes]) -> None:
    """Watch a connection whose client said that nothing more will come, and abort it once a reset comes.

    `probe` gives bytes that change nothing for a client that still reads; it is asked until it gives some. Where the
    system tells nothing of a reset before the next write (Windows), that write ends the connection.
    """
    loop = asyncio.get_running_loop()

    def look(is_probed: bool) -> None:
        if transport.is_closing():
            return
        if transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            transport.abort()
            return
        if not is_probed and (data := probe()):
            transport.write(data)
            is_probed = True
        loop.call_later(_LOOK_SECONDS, look, is_probed)

    loop.call_later(_LOOK_SECONDS, look, False)  # most responses are whole by then
