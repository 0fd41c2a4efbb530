"""`contextkit kv-size`: against arrays of the reference model, a count position by position, and published figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextkit.kv_size import layers_of, sequence_bytes
from contextkit.transformer.costs import REAL, kv_bytes
from contextkit.transformer.engine import Engine
from contextkit.transformer.kv_cache import ContiguousCache
from contextkit.transformer.model import Model
from contextkit.transformer.weights import Shape, seeded
from tests.cli.conftest import Run

LLAMA_2_7B = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
    "torch_dtype": "float16",
}
LLAMA_3_8B = {**LLAMA_2_7B, "num_key_value_heads": 8, "torch_dtype": "bfloat16"}
STARCODER = {"n_layer": 40, "n_head": 48, "n_embd": 6144, "multi_query": True}
DEEPSEEK_V3 = {
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
MISTRAL_7B = {**LLAMA_3_8B, "sliding_window": 4096}
GEMMA_3_27B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 62,
        "hidden_size": 5376,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "sliding_window": 1024,
    },
}
QWEN_NEXT = {
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "torch_dtype": "bfloat16",
}


def sized(run: Run, folder: Path, config: dict[str, Any], *options: object) -> dict[str, Any]:
    path = folder / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    ended = run("kv-size", path, "--json", *options)
    assert (ended.code, ended.err) == (0, "")
    figures: dict[str, Any] = json.loads(ended.out)
    return figures


def counted(n_tokens: int, windows: list[int | None], row: int, n_bytes: int = 2) -> int:
    """Bytes of the positions that are still held after the last token, layer by layer."""
    held = 0
    for window in windows:
        rows: list[int] = []
        for position in range(n_tokens):
            rows.append(position)
            if window is not None and len(rows) > window:
                rows.pop(0)
        held += len(rows) * row * n_bytes
    return held


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        ({"num_key_value_heads": 4}, Shape(n_heads=4, n_kv_heads=4)),
        ({}, Shape(n_heads=4, n_kv_heads=4)),
        ({"num_key_value_heads": 2}, Shape(n_heads=4, n_kv_heads=2)),
        ({"multi_query": True}, Shape(n_heads=4, n_kv_heads=1)),
        ({"head_dim": 6}, Shape(n_heads=4, n_kv_heads=4, d_head=6)),
        ({"kv_lora_rank": 12, "qk_rope_head_dim": 4}, Shape(n_heads=4, n_kv_heads=1, d_latent=12, d_rope=4)),
    ],
    ids=["MHA", "no KV heads named", "GQA", "MQA", "head_dim", "MLA"],
)
def test_the_bytes_are_those_of_the_arrays_of_a_real_cache(config: dict[str, Any], shape: Shape) -> None:
    cache = ContiguousCache(shape, "float32", n_reserved=32)
    engine = Engine(Model(seeded(shape)), lambda: cache)
    engine.feed([(engine.open(), list(range(32)))])
    held = sum(part.size for layer in range(shape.n_layers) for part in cache.read(layer, 32))
    sizes = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, **config}
    assert sequence_bytes(layers_of(sizes), 32, 32) == 4 * held


def test_published_models(run: Run, tmp_path: Path) -> None:
    llama2 = sized(run, tmp_path, LLAMA_2_7B, "--batch", 3, "--memory", "80GB")
    assert (llama2["dtype"], llama2["context"], llama2["token_bytes"]) == ("fp16", 4096, 524_288)
    assert (llama2["sequence_bytes"], llama2["batch_bytes"]) == (2 * 2**30, 6 * 2**30)
    assert llama2["sequences_in_memory"] == 37  # 80e9 / 2**31 = 37.25
    llama3 = sized(run, tmp_path, LLAMA_3_8B, "--context", "128k", "--dtype", "fp8")
    assert (llama3["token_bytes"], llama3["context"], llama3["sequence_bytes"]) == (65_536, 131_072, 8 * 2**30)
    assert sized(run, tmp_path, STARCODER)["token_bytes"] == 40 * 2 * 128 * 2
    assert sized(run, tmp_path, DEEPSEEK_V3)["token_bytes"] == 70_272
    small = {"n_layer": 4, "n_head": 4, "n_embd": 64, "dtype": "float32"}
    assert sized(run, tmp_path, small, "--context", 32)["sequence_bytes"] == 65_536  # the article's 16,384 elements


@pytest.mark.parametrize("n_tokens", [1, 500, 1024, 1025, 5000])
def test_sliding_layers_hold_their_window(run: Run, tmp_path: Path, n_tokens: int) -> None:
    context = ("--context", n_tokens)
    mistral = sized(run, tmp_path, MISTRAL_7B, *context)
    assert mistral["sequence_bytes"] == counted(n_tokens, [4096] * 32, 2 * 8 * 128)
    no_window = sized(run, tmp_path, MISTRAL_7B | {"use_sliding_window": False}, *context)
    assert no_window["sequence_bytes"] == counted(n_tokens, [None] * 32, 2 * 8 * 128)
    upper = sized(run, tmp_path, MISTRAL_7B | {"use_sliding_window": True, "max_window_layers": 30}, *context)
    assert upper["sequence_bytes"] == counted(n_tokens, [None] * 30 + [4096] * 2, 2 * 8 * 128)
    gemma = sized(run, tmp_path, GEMMA_3_27B, *context)
    pattern = ([1024] * 5 + [None]) * 10 + [1024] * 2
    assert gemma["sequence_bytes"] == counted(n_tokens, pattern, 2 * 16 * 128)
    kinds = ["full_attention" if window is None else "sliding_attention" for window in pattern]
    listed = {"text_config": GEMMA_3_27B["text_config"] | {"layer_types": kinds, "num_kv_shared_layers": 20}}  # type: ignore[operator]
    assert sized(run, tmp_path, listed, *context)["sequence_bytes"] == counted(n_tokens, pattern[:-20], 2 * 16 * 128)


def test_recurrent_layers_hold_a_state_and_no_tokens(run: Run, tmp_path: Path) -> None:
    attention, convolution, recurrence = 12 * 2 * 2 * 256 * 2, 3 * (2 * 16 * 128 + 32 * 128), 32 * 128 * 128
    state = 36 * 2 * (convolution + recurrence)
    for n_tokens in (1, 1000):
        hybrid = sized(run, tmp_path, QWEN_NEXT, "--context", n_tokens)
        assert (hybrid["token_bytes"], hybrid["sequence_bytes"]) == (attention, n_tokens * attention + state)
    wider = sized(run, tmp_path, QWEN_NEXT | {"mamba_ssm_dtype": "float32"}, "--context", 1, "--dtype", "fp8")
    assert wider["sequence_bytes"] == attention // 2 + 36 * (2 * convolution + 4 * recurrence)  # a state keeps its type
    sizes = {"num_hidden_layers": 3, "num_attention_heads": 2, "hidden_size": 8}
    mamba2 = {"mamba_n_heads": 4, "mamba_d_head": 4, "mamba_n_groups": 1, "mamba_d_state": 5, "mamba_d_conv": 4}
    granite = sizes | {"layer_types": ["mamba", "attention", "mamba"], **mamba2}
    assert sized(run, tmp_path, granite, "--context", 10)["sequence_bytes"] == 10 * 32 + 2 * 2 * (3 * 26 + 80)
    nemotron = sizes | {"hybrid_override_pattern": "M-*"}
    path = tmp_path / "nemotron.json"
    path.write_text(json.dumps(nemotron), "utf-8")
    assert "1 layers: recurrent, whose state the config does not tell: not counted" in run("kv-size", path).out
    jamba = sizes | {
        "attn_layer_period": 3,
        "attn_layer_offset": 1,
        "mamba_expand": 2,
        "mamba_d_state": 5,
        "mamba_d_conv": 4,
    }
    assert sized(run, tmp_path, jamba, "--context", 10)["sequence_bytes"] == 10 * 32 + 2 * 2 * (3 * 16 + 80)


def test_a_name_is_a_row_of_the_table_of_the_reference_model(run: Run) -> None:
    for name, row in REAL.items():
        figures = json.loads(run("kv-size", name.lower(), "--json", "--context", 1000).out)
        assert figures["sequence_bytes"] == kv_bytes(row.shape, 1000), name
    ended = run("kv-size", "Llama-2-7B", "--batch", 4, "--memory", "80GB")
    assert ended.out.splitlines() == [
        "32 layers: full attention",
        "524,288 bytes a token at fp16",
        "2,147,483,648 bytes (2 GiB) for 1 x 4,096 tokens",
        "8,589,934,592 bytes (8 GiB) for 4 x 4,096 tokens",
        "37 such sequences in 80,000,000,000 bytes",
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_hidden_layers": 0}, "'num_hidden_layers' is 0: give a whole number above 0"),
        ({"num_attention_heads": None}, "no 'num_attention_heads' (or n_head, n_heads): add it"),
        ({"layer_types": ["full_attention"]}, "not as long as the 32 layers"),
        ({"layer_types": ["rubber"] * 32}, "layer type 'rubber' is not known: use one of full_attention"),
        ({"layer_types": ["sliding_attention"] * 32}, "no 'sliding_window'"),
        ({"kv_lora_rank": "512"}, "'kv_lora_rank' is '512': give a whole number"),
        ({"num_hidden_layers": 10**11}, "100,000,000,000 layers: give at most 10,000"),
        ({"model_type": "gemma3_text"}, "no 'head_dim'"),  # its class has 256, however wide the model is
        (
            {"layer_types": ["mamba"] * 32, "mamba_expand": 2, "mamba_d_state": -5, "mamba_d_conv": 4},
            "'mamba_d_state' is -5: give a whole number above 0",
        ),
    ],
)
def test_a_config_that_makes_no_sense_is_one_line(run: Run, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_2_7B | change), "utf-8")
    ended = run("kv-size", tmp_path / "config.json")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert words in ended.err and str(tmp_path / "config.json") in ended.err
