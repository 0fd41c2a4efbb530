"""`contextkit validate --engine` against a real llama.cpp server, and against servers that are none or are set wrongly."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from contextkit.cli.validate import command
from contextkit.engines.running import RUNNING
from tests.cli.conftest import COMMAND, Run, Start
from tests.engines.llamacpp_process import LlamaServer
from tests.engines.tiny_gguf import write_gguf

needs_llamacpp = pytest.mark.skipif(
    not (find_spec("xllamacpp") and find_spec("gguf")), reason="xllamacpp and gguf are not installed"
)
posix = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
ALONE: dict[str, Any] = {"n_ctx": 2048, "cache_ram_mib": 0, "cache_idle_slots": False}
"""A server whose slots are all it has; `NO_HOST` says so to the reference cache."""
NO_HOST = ("--host-tokens", 0, "--no-idle-slots")


# A real server
# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "full.gguf"
    write_gguf(path)
    return path


@needs_llamacpp
def test_a_real_server_is_as_predicted(run: Run, model: Path) -> None:
    with LlamaServer(model, n_parallel=2, **ALONE) as server:
        ended = run("validate", "--engine", "llamacpp", "--base-url", server.url, "--requests", 80, *NO_HOST)
    assert (ended.code, ended.err) == (0, "")
    text = " ".join(ended.out.split())
    assert text.startswith("llama.cpp ") and "1,024 tokens of context it says: slots 2" in text
    assert "you say: idle slots off, host tokens 0 taken as the engine's defaults: unified off (--unified)" in text
    assert "cannot be emptied by a request: what it held before is evicted first" in text
    assert "80 of 80 requests read as predicted (100.00 %)" in text


@needs_llamacpp
def test_an_option_said_wrongly_is_found(run: Run, model: Path) -> None:
    with LlamaServer(model, n_parallel=2, **ALONE) as server:
        asked = ("validate", "--engine", "llamacpp", "--base-url", server.url, "--requests", 60)
        ended = run(*asked, "--json", "--slots", 1, *NO_HOST)
    assert ended.code == 1
    said = json.loads(ended.out)
    assert said["configuration"]["options"]["slots"] == 2 and said["given"] == {
        "slots": 1,
        "host_tokens": 0,
        "idle_slots": False,
    }
    assert said["equal"] < said["total"] == 60 and said["agreement"] < said["min_agreement"] == 99
    assert said["explanation"] == {"changes": {"slots": 2}, "equal": 60, "first_difference": None}
    assert len(said["differences"]) == 60 - said["equal_slots"] >= 60 - said["equal"]
    first = said["differences"][0]
    assert (first["read"], first["slot"]) != (first["predicted"], first["predicted_slot"])
    assert sum(row["total"] for row in said["kinds"].values()) == 60
    assert said["other_traffic"]["other_tokens"] == 0


@needs_llamacpp
def test_several_options_are_found_together(run: Run, model: Path) -> None:
    with LlamaServer(model, n_ctx=4096, n_parallel=2, cache_idle_slots=False, n_cache_reuse=16) as server:
        asked = ("validate", "--engine", "llamacpp", "--base-url", server.url, "--seed", 1, "--requests", 120)
        ended = run(*asked, "--json")
    said = json.loads(ended.out)
    assert said["explanation"]["changes"].keys() == {"idle_slots", "cache_reuse"}
    assert said["explanation"]["equal"] == said["total"] > said["equal"]


@needs_llamacpp
def test_a_page_and_a_lower_limit(run: Run, model: Path) -> None:
    with LlamaServer(model, n_parallel=3, **ALONE) as server:
        asked = ("validate", "--engine", "llamacpp", "--base-url", server.url, "--requests", 60, "--slots", 1, *NO_HOST)
        ended = run(*asked, "--markdown", "--min-agreement", 1)
    assert (ended.code, ended.err) == (0, "")
    page = ended.out.replace("\\", "")
    assert page.startswith("# A running engine and its reference cache\n")
    assert "you say: slots 1, idle slots off, host tokens 0, against what it says" in page
    assert "slots 3 instead of 1 would predict 60 of 60, and the server says so: leave out --slots" in page
    assert "## Requests that differ" in page and "| slots 3 | 60 |" in page


@needs_llamacpp
def test_other_traffic_and_a_used_server_are_told(run: Run, model: Path) -> None:
    with LlamaServer(model, **ALONE) as server:
        asked = ("validate", "--engine", "llamacpp", "--base-url", server.url, "--requests", 5, *NO_HOST)
        assert run(*asked, "--seed", 7).code == run(*asked, "--seed", 8).code == 0  # other prompts are not in its cache
        again = run(*asked, "--seed", 8)
        assert again.code == 1 and "just started is compared best, and it has taken" in again.out
    with LlamaServer(model, endpoint_metrics=False, **ALONE) as server:
        blind = run("validate", "--engine", "llamacpp", "--base-url", server.url, "--requests", 5, *NO_HOST)
    assert blind.code == 0 and "cannot be seen (it keeps a counter with --metrics)" in " ".join(blind.out.split())


@needs_llamacpp
def test_the_key_is_asked_for_and_never_shown(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LlamaServer(model, api_keys=["sk-right"], **ALONE) as server:
        asked = ("validate", "--engine", "llamacpp", "--base-url", server.url, "--requests", 3, *NO_HOST)
        without = run(*asked)
        assert without.code == 2 and "wants a key: give it with --api-key or CONTEXTKIT_ENGINE_KEY" in without.err
        wrong = run(*asked, "--api-key", "sk-wrong")
        assert wrong.code == 2 and "takes another key" in wrong.err and "sk-" not in wrong.out + wrong.err
        monkeypatch.setenv("CONTEXTKIT_ENGINE_KEY", "sk-right")
        right = run(*asked, "--json")
        assert right.code == 0 and "sk-" not in right.out + right.err


@needs_llamacpp
def test_a_model_that_is_not_served(run: Run, model: Path) -> None:
    with LlamaServer(model, **ALONE) as server:
        ended = run("validate", "--engine", "llamacpp", "--base-url", server.url, "--model", "other")
    assert ended.code == 2 and "has no model 'other': it serves " in ended.err and len(ended.err.splitlines()) == 1


@needs_llamacpp
@posix
def test_ctrl_c_keeps_the_figures(start: Start, model: Path) -> None:
    with LlamaServer(model, **ALONE) as server, socket.create_server(("127.0.0.1", 0)) as door:
        address, stalled = door.getsockname()[1], threading.Event()
        threading.Thread(target=_passed_on, args=(door, server.url, 20, stalled), daemon=True).start()
        asked = ["validate", "--engine", "llamacpp", "--base-url", f"http://127.0.0.1:{address}", *map(str, NO_HOST)]
        process = start([*COMMAND, *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert stalled.wait(30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "requests read as predicted (100.00 %)" in out
    assert err.startswith("interrupted: ") and len(err.splitlines()) == 1


def _passed_on(door: socket.socket, url: str, n_connections: int, stalled: threading.Event) -> None:
    """Pass connections on to a server, then keep one without an answer."""
    host, port = url.removeprefix("http://").split(":")
    for _ in range(n_connections):
        client, _ = door.accept()
        with client, socket.create_connection((host, int(port))) as server:
            threading.Thread(target=_copied, args=(client, server), daemon=True).start()
            _copied(server, client)
    waiting, _ = door.accept()
    with waiting:
        waiting.recv(1)
        stalled.set()
        waiting.settimeout(30)
        while waiting.recv(65536):
            pass


def _copied(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        return  # the other side is done


# Servers that are none, or are set wrongly
# ---------------------------------------------------------------------------------------------------------------------

Answer = tuple[int, str] | None
"""Status and body; None hangs up."""


@contextmanager
def answering(answer: Callable[[str], Answer]) -> Iterator[str]:
    """Somebody's server: path → what it answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answered = answer(self.path)
            if answered is None:
                self.close_connection = True
                return
            body = answered[1].encode()
            self.send_response(answered[0])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def vllm(path: str) -> Answer:
    """A vLLM server that computes every prompt."""
    answers: dict[str, Any] = {
        "/version": {"version": "0.32.0+cpu"},
        "/v1/models": {"data": [{"id": "tiny", "max_model_len": 1024}]},
        "/reset_prefix_cache": {},
        "/v1/completions": {
            "choices": [{"token_ids": [7]}],
            "usage": {"prompt_tokens_details": {"cached_tokens": 0}},
        },
    }
    if path == "/metrics":
        return 200, 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100",sliding_window="None"} 1.0\n'
    return (200, json.dumps(answers[path])) if path in answers else (404, '{"detail":"Not Found"}')


def but(path: str, answer: Answer) -> Callable[[str], Answer]:
    """`vllm` with another answer to one path."""
    return lambda asked: answer if asked == path else vllm(asked)


COMPLETIONS = "/v1/completions"
NULL = json.dumps({"choices": [{"token_ids": [7]}], "usage": {"prompt_tokens_details": None}})
NO_IDS = json.dumps({"choices": [{"text": "a"}], "usage": {"prompt_tokens_details": {"cached_tokens": 0}}})
OTHERS = [
    ("vllm", lambda path: (200, "<html>hi</html>"), "/version answers no JSON: --base-url is the address of another"),
    ("vllm", lambda path: (404, "<html>no</html>"), "vLLM has /version, this server has not (404): give another"),
    ("vllm", lambda path: (200, "[]"), "/version of this server has no version: it is not vLLM, give another --engine"),
    ("vllm", lambda path: None, "nothing usable answers at http://127.0.0.1:"),
    ("sglang", vllm, "SGLang has /server_info, this server has not (404)"),
    ("llamacpp", vllm, "llama.cpp's server has /props, this server has not (404)"),
    (
        "llamacpp",
        lambda path: (503, '{"error":{"message":"Loading model"}}'),
        "503, 'Loading model': wait until its model",
    ),
    ("llamacpp", lambda path: (200, '{"total_slots":1}'), "the answer of /props is not as llama.cpp's server gives it"),
    ("vllm", but("/v1/models", (401, '{"error":"Unauthorized"}')), "wants a key: give it with --api-key"),
    ("vllm", but("/v1/models", (200, '{"data":[]}')), "this server serves no model: start it with one"),
    ("vllm", but("/v1/models", (200, '{"data":[{}]}')), "the answer of /v1/models is not as vLLM gives it"),
    (
        "vllm",
        but("/metrics", (200, 'vllm:cache_config_info{enable_prefix_caching="False"} 1\n')),
        "prefix caching is off",
    ),
    ("vllm", but(COMPLETIONS, (200, NULL)), "start vLLM with --enable-prompt-tokens-details"),
    ("vllm", but(COMPLETIONS, (200, NO_IDS)), "does not return the ids of generated tokens"),
    ("vllm", but(COMPLETIONS, (200, '{"usage":[]}')), "the answer of /v1/completions is not as vLLM gives it"),
    (
        "vllm",
        but(COMPLETIONS, (400, '{"error":{"message":"Token id 499 is out of vocabulary"}}')),
        "'Token id 499 is out",
    ),
    ("vllm", but(COMPLETIONS, None), "stopped answering (Remote end closed connection without response): look at the"),
]


@pytest.mark.parametrize(("engine", "answer", "words"), OTHERS, ids=[words[:40] for _, _, words in OTHERS])
def test_what_no_figures_come_of_is_one_line(
    engine: str, answer: Callable[[str], Answer], words: str, run: Run
) -> None:
    with answering(answer) as url:
        ended = run("validate", "--engine", engine, "--base-url", url, "--json")
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err and len(ended.err.splitlines()) == 1


def test_a_port_where_nothing_listens(run: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ended = run("validate", "--engine", "vllm", "--base-url", f"http://127.0.0.1:{free.getsockname()[1]}/v1/")
    assert ended.code == 2 and "refused" in ended.err
    assert "start the server, or correct --base-url" in ended.err and len(ended.err.splitlines()) == 1


def test_a_server_that_says_nothing_runs_out_of_time(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        ended = run("validate", "--engine", "sglang", "--base-url", url, "--timeout", 0.2)
    assert ended.code == 2
    assert f"{url}/server_info gave no answer within 0.2 s" in ended.err and "--timeout" in ended.err


def test_a_redirect_is_not_followed_as_it_would_carry_the_key(run: Run) -> None:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.2:9/version")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        ended = run("validate", "--engine", "vllm", "--base-url", url, "--api-key", "sk-1234")
        server.shutdown()
    assert ended.code == 2 and "leads elsewhere (302): give that address" in ended.err and seen == ["/version"]


def test_no_proxy_is_used_for_this_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with answering(vllm) as url:
        ended = run("validate", "--engine", "vllm", "--base-url", url, "--requests", 2)
    assert ended.out.startswith("vLLM 0.32.0") and not ended.err


def test_a_server_that_quotes_the_key_in_a_long_text(run: Run) -> None:
    refusal = 401, json.dumps({"error": {"message": "a" * 195 + " SK-1234567890"}})
    with answering(but("/version", refusal)) as url:
        ended = run("validate", "--engine", "vllm", "--base-url", url, "--api-key", "sk-1234567890")
    assert ended.code == 2 and "SK-" not in ended.err


def test_a_server_that_quotes_the_key(run: Run) -> None:
    refusal = 401, '{"error":{"message":"Incorrect API key provided: sk-1234"}}'
    with answering(lambda path: refusal) as url:
        ended = run("validate", "--engine", "vllm", "--base-url", url, "--api-key", "sk-1234")
    assert ended.code == 2 and "'Incorrect API key provided: …'" in ended.err and "sk-1234" not in ended.err


@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]], ids=str)
def test_what_a_dying_server_answered_is_kept(form: list[str], run: Run) -> None:
    n_answered = 0

    def dying(path: str) -> Answer:
        nonlocal n_answered
        n_answered += path == COMPLETIONS
        return vllm(path) if n_answered <= 4 else None

    with answering(dying) as url:
        ended = run("validate", "--engine", "vllm", "--base-url", url, *form)
    assert ended.code == 2
    assert "stopped answering" in ended.err and "the 4 requests before request 5" in ended.err
    assert len(ended.err.splitlines()) == 1
    if form == ["--json"]:
        said = json.loads(ended.out)
        assert said["total"] == 4 and "stopped answering" in said["failure"]
        assert said["settings"]["engine_version"] == "0.32.0"
    else:
        assert "of 4 requests read as predicted" in ended.out


def test_differences_that_no_option_explains(run: Run) -> None:
    read = json.dumps({"choices": [{"token_ids": [7]}], "usage": {"prompt_tokens_details": {"cached_tokens": 5}}})
    with answering(but(COMPLETIONS, (200, read))) as url:
        ended = run("validate", "--engine", "vllm", "--base-url", url, "--requests", 15)
    assert ended.code == 1
    text = " ".join(ended.out.split())
    assert "0 of 15 requests read as predicted (0.00 %), below the 99 % of --min-agreement" in text
    assert (
        "no other setting that was tried predicts more requests (--block-size, " in text
        and "and 5 more: --verbose lists them all" in text
    )
    assert "its cache was emptied" in text and "cannot be seen" in text


# What is typed
# ---------------------------------------------------------------------------------------------------------------------

WRONG = [
    ("--engine vllm session.jsonl", "--engine asks a server, session.jsonl is a recording: leave one out"),
    (
        "--base-url http://127.0.0.1:1",
        "--base-url is about a running engine: name it with --engine vllm|sglang|llamacpp",
    ),
    ("session.jsonl --slots 2", "--slots is about a running engine"),
    ("--engine lmstudio", "'lmstudio' is not one of 'vllm', 'sglang', 'llamacpp'"),
    ("--engine vllm --slots 2", "vllm has no slots: it takes --block-size"),
    ("--engine vllm --block-size 0", "block_size is 0"),
    ("--engine vllm --engine-version new", "engine_version is 'new': name a release, as in vllm 0.33.0"),
    ("--engine sglang --policy best", "no eviction policy 'best': choose one of lru"),
    ("--engine vllm --base-url localhost:8000", "'localhost:8000' is no address of a server: give one such as http"),
    ("--engine vllm --base-url http://u:sk-1@host", "--base-url takes scheme, host, port and path alone"),
    ("--engine vllm --base-url http://127.0.0.1:99999", "is no address of a server"),
    ("--engine vllm --min-agreement nan", "it is no number"),
    ("--engine vllm --timeout inf", "is not in the range"),
    ("--engine llamacpp --memory window", "a window takes memory window, and that a window"),
    ("--engine llamacpp --memory window --window 1000000000", "1,048,576 at most"),
    ("--engine vllm --api-key sk-1\n", "the key holds characters that no header takes"),
    ("--engine vllm --requests 0", "'--requests'"),
    ("--engine vllm --min-agreement 200", "'--min-agreement'"),
    ("--engine vllm --timeout 0", "'--timeout'"),
    ("--engine vllm --json --markdown", "leave one out"),
    ("", "Missing argument 'PATHS...'. Give recordings, or a running engine with --engine."),
]


@pytest.mark.parametrize(("args", "words"), WRONG, ids=[args for args, _ in WRONG])
def test_what_is_typed_wrong_is_one_line(args: str, words: str, run: Run) -> None:
    ended = run("validate", *filter(None, args.split(" ")))
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err and len(ended.err.splitlines()) == 1
    assert "sk-1" not in ended.err


def test_a_key_of_the_environment_does_not_matter_to_recordings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTKIT_ENGINE_KEY", "sk-1")
    assert "nope.jsonl: no such file" in run("validate", "nope.jsonl").err


def test_every_option_of_a_reference_cache_has_its_meaning() -> None:
    with_engines = [
        one for one in command.params if any(f"{name} " in (getattr(one, "help", "") or "") for name in RUNNING)
    ]
    assert len(with_engines) > 5
    assert [one.name for one in with_engines if (getattr(one, "help", "") or "").startswith("[")] == []
