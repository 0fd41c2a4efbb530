"""A provider that reads a request and says one short thing, in a process of its own, so that only the caller's CPU is
measured.

Takes nothing, gives a base URL. It parses nothing but the length of a body, and checks nothing: it is a measuring
weight, not a server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_USAGE = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5-5",
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "content": [{"type": "text", "text": "Understood."}],
    "usage": _USAGE,
}
_SAID = {"role": "assistant", "content": "Understood.", "refusal": None}
_COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-6.1-sol",
    "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None, "message": _SAID}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_TEXT = {"type": "output_text", "text": "Understood.", "annotations": []}
_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-6.1-sol",
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "temperature": 1.0,
    "top_p": 1.0,
    "output": [{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [_TEXT]}],
    "usage": {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}
_ANSWERS = {b"/v1/messages": _MESSAGE, b"/chat/completions": _COMPLETION, b"/responses": _RESPONSE}
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nrequest-id: r1\r\ncontent-length: %d\r\n\r\n%b"


@contextmanager
def provider() -> Iterator[str]:
    """Base URL of a provider that runs until the block ends."""
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def _serve() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        Thread(target=_answer, args=(listener.accept()[0],), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    """One kept-alive connection."""
    buffer = bytearray(1 << 20)
    answers = {path: json.dumps(answer).encode() for path, answer in _ANSWERS.items()}
    while head := _head(connection):
        lines, _, rest = head.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines.split(b"\r\n")[1:])
        left = int(fields[b"content-length"]) - len(rest)
        while left > 0:
            left -= connection.recv_into(buffer, min(left, len(buffer)))
        answer = answers[lines.split(b" ", 2)[1].partition(b"?")[0]]
        connection.sendall(_HEAD % (len(answer), answer))


def _head(connection: socket.socket) -> bytes:
    """What came up to the end of the headers, with what came of the body behind them.

    Nothing once the caller has hung up.
    """
    head = b""
    while b"\r\n\r\n" not in head:
        some = connection.recv(65_536)
        if not some:
            return b""
        head += some
    return head


if __name__ == "__main__":
    _serve()
