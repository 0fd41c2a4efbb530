"""Draws the picture of `docs/explanation/engine-lesson.md` and prints its table: python docs/figures/engine_lesson.py

Starts llama.cpp's server with a tiny random model. Needs the extra `engines`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1]))

from contextkit.cli.explain_engine import print_steps, svg
from contextkit.engines.lesson import lesson
from contextkit.engines.registry import engine
from contextkit.engines.running import LlamaCpp
from tests.engines.llamacpp_process import LlamaServer, version
from tests.engines.tiny_gguf import write_gguf


def main() -> None:
    """The picture, and the table on standard output."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "tiny.gguf"
        write_gguf(model)
        with LlamaServer(model, n_parallel=-1, n_ctx=0) as running:
            server = LlamaCpp(running.url)
            told = server.configuration()
            cache = engine("llamacpp", **{**told.likely, **told.options}).cache
            steps = list(lesson(server, cache, "figure"))
    drawn = svg(steps, f"llama.cpp {version()}, a tiny random model on a CPU")
    (FOLDER / "engine-lesson.svg").write_text(drawn, encoding="utf-8", newline="\n")
    print_steps(steps)


if __name__ == "__main__":
    main()
