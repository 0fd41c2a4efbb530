"""Writes `docs/reference/engine-agreement.md` from the recorded runs: `python -m tests.engines.agreement_page --write`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tests.engines.cassettes import Cassette, cassettes, read

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "engine-agreement.md"
ENGINES = {
    "vllm": ("vLLM", "`python -m tests.engines.running_engines vllm`"),
    "sglang": ("SGLang", "`python -m tests.engines.running_engines sglang`"),
    "llamacpp": ("llama.cpp", "`python -m tests.engines.llamacpp_configurations`"),
    "transformers": ("transformers", "`python -m tests.engines.transformers_run`"),
}
"""Engine → its name, and what runs it."""
OPENING = """# Agreement with running engines

Each reference cache of a self-hosted engine ran beside the real engine, on a CPU, with a tiny random model: the same prompts, one call
after the other, and after each call the tokens that the engine says it read from its cache beside those that the reference predicts. A
call is equal if both are the same number, to the token; with llama.cpp also if the same slot served it, or if both refused the prompt.
Prompts are a [seeded stream](../../contextkit/engines/prompt_stream.py): conversations that grow by the engine's own replies, repeats,
cuts at block boundaries, edits, deletions, other tenants. Every run of vLLM, SGLang and transformers evicts.

Check your own server with [`contextkit validate --engine`](cli.md#contextkit-validate).

"""
CLOSING = """
The first calls of each run are recorded in `tests/engines/recorded`, and replayed on the reference caches by the ordinary tests, which also
run ten llama.cpp servers. `--requests` and `--record` repeat and record a run. `pytest tests/engines/test_running_llamacpp.py --full` also
runs 200 llama.cpp servers with options drawn at random, 80 calls each, all equal. Of 476 more servers with other seeds one differed in one
chain of calls: the sizes of saved states of a sliding window, which decide what a host of 1 MiB drops, are known to some bytes only.

## What is not measured

Rules that are only read in an engine's source, and those that are assumed, are marked in [caches](caches.md). Not run:

* **all**: several GPUs, images, LoRA adapters, other releases than those above.
* **Overlapping requests** were run in pairs, the second beginning and ending while the first runs: vLLM 499 of 500 calls equal, SGLang
  917 of 920; in the four others the order of events is not known to the millisecond, and the reference depends on it. transformers: 1,002
  of 1,002 if no two prompts are computed in one pass, 962 of 1,002 if they may be, as it then looks at its margin once for both.
* **vLLM**: preemption, block size 16 (its CPU build has multiples of 32), hybrid models, KV connectors; these are compared with vLLM's own
  cache manager, state by state ([conformance](caches.md#conformance)).
* **SGLang**: policies other than LRU and LFU, HiCache, chunked prefill; its tree is compared with the real one, operation by operation.
* **llama.cpp**: speculative decoding, hybrid models, `--swa-full` (not modelled), GPUs. Requests with `id_slot`, `cache_prompt: false` or
  `n_keep` and `n_cache_reuse` of their own, and overlapping requests, were compared once, 150 to 400 of each, all equal.
* **LMCache**: it starts on no CPU (0.5.6: "No supported cpu connector found"); its policies are compared with its own classes.
"""


def page() -> str:
    """The page, from the recordings."""
    return OPENING + "\n".join(_tables([read(path) for path in cassettes()])) + "\n" + CLOSING


def _tables(runs: list[Cassette]) -> Iterator[str]:
    for engine, rows in groupby(sorted(runs, key=lambda run: list(ENGINES).index(run.engine)), lambda run: run.engine):
        of_engine = list(rows)
        equal, total = sum(run.equal for run in of_engine), sum(run.total for run in of_engine)
        least = min(of_engine, key=lambda run: run.equal / run.total)
        name, command = ENGINES[engine]
        yield f"## {name}"
        yield ""
        yield f"{equal:,} of {total:,} calls are equal, in the worst run {least.equal:,} of {least.total:,}. Repeat: {command}."
        yield ""
        yield "| run | version | options of the server | equal | calls |"
        yield "|---|---|---|---|---|"
        for run in of_engine:
            options = ", ".join(f"`{option}={value}`" for option, value in run.server.items()) or "none"
            shown = run.name.removeprefix(f"{engine}-").replace("-", " ")
            yield f"| {shown} | {run.version} | {options} | {run.equal:,} | {run.total:,} |"
        yield ""
        for run in of_engine:
            if run.differing:
                calls = ", ".join(map(str, run.differing))
                yield f"Calls that differ in *{run.name.removeprefix(f'{engine}-').replace('-', ' ')}*, counted from 0: {calls}."
                yield ""


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8", newline="\n")
    else:
        print(page(), end="")
