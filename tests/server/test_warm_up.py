"""A server that says it is ready has loaded what its first requests need."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.server.bodies import BODIES, HEADERS

PATHS = (
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/compact",
    "/v1/conversations",
    "/model/anthropic.claude-sonnet-5-5/converse",
    "/model/anthropic.claude-sonnet-5-5/invoke",
    "/v1beta/models/gemini-2.5-pro:generateContent",
)
_CHILD = """
import http.client, json, sys
from contextkit.server import LocalServer

"host".encode("idna")  # what the client below imports itself
requests, headers = json.load(sys.stdin)
with LocalServer(now=1000.0) as server:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    before, found = set(sys.modules), {}
    for path, body in requests:
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        found[path] = [answer.status, sorted(set(sys.modules) - before)]
        before = set(sys.modules)
json.dump(found, sys.stdout)
"""


def test_the_first_request_of_an_endpoint_imports_no_module(start: Callable[..., subprocess.Popen[Any]]) -> None:
    bodies = {path: body for path, body in BODIES.values() if path in PATHS}
    bodies.update({path: BODIES[path][1] for path in PATHS if path in BODIES})
    sent = json.dumps([list(bodies.items()), {**HEADERS, "content-type": "application/json"}])
    child = start([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found = json.loads(child.communicate(sent)[0])
    assert found == {path: [200, []] for path in PATHS}
