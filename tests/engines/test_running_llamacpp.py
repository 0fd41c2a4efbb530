"""A real llama.cpp server beside `SlotCache`: every call reads as predicted, in the slot that was predicted."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from tests.engines.llamacpp_configurations import CONFIGURATIONS, HOSTS, Configuration, drawn, run
from tests.engines.tiny_gguf import write_gguf
from tests.scale import cases, n_examples

pytestmark = pytest.mark.skipif(
    not (find_spec("xllamacpp") and find_spec("gguf")), reason="xllamacpp and gguf are not installed: extra `engines`"
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny model of each kind of memory."""
    folder = tmp_path_factory.mktemp("models")
    paths = {memory: folder / f"{memory}.gguf" for memory in HOSTS}
    for memory, path in paths.items():
        write_gguf(path, memory)
    return paths


@pytest.mark.parametrize(
    "configuration",
    cases((one for one in CONFIGURATIONS if one.is_short), CONFIGURATIONS),
    ids=lambda one: one.name,
)
def test_reads_what_the_reference_predicts(models: dict[str, Path], configuration: Configuration) -> None:
    _, _, found = run(configuration, models[configuration.memory], n_examples(100, 1000))
    assert found.differences == [] and found.n_read > 0
    assert bool(found.n_refused) == configuration.is_refusing


@pytest.mark.parametrize("seed", range(n_examples(4, 200)))
def test_reads_what_the_reference_predicts_whatever_the_options(models: dict[str, Path], seed: int) -> None:
    configuration = drawn(Random(seed))
    _, _, found = run(configuration, models[configuration.memory], 80, seed)
    assert found.differences == [], configuration
