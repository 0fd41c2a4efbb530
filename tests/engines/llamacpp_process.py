"""A real llama.cpp server in a process of its own: `LlamaServer(model, n_parallel=2, cache_ram_mib=0)`.

The server is that of the wheel `xllamacpp`; options are the fields of its `CommonParams`, which are those of
llama.cpp. As a program it prints its address and runs until its standard input closes:
`python -m tests.engines.llamacpp_process MODEL '{"n_ctx": 4096}'`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHECKOUT = Path(__file__).parents[2]


def version() -> str:
    """The build of llama.cpp in the wheel, which is the last part of the wheel's version."""
    return "b" + metadata.version("xllamacpp").rpartition(".")[2]


class LlamaServer:
    """A running server; `url` is its address. A context manager."""

    def __init__(self, model: Path, **options: Any) -> None:
        command = [sys.executable, "-m", __name__, str(model), json.dumps(options)]
        self._process = subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"llama.cpp's server did not start with {options}")

    def close(self) -> None:
        """Stop it."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main(model: str, options: str) -> None:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.port = 0
    parameters.n_gpu_layers = 0
    parameters.cpuparams.n_threads = 1
    parameters.warmup = False
    parameters.endpoint_metrics = True
    parameters.verbosity = 1
    for name, value in json.loads(options).items():
        setattr(parameters, name, value)
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
