"""Shapes of models people run, as their makers publish them.

Gives rows for `costs.py`; none of these can be run here. `d_ff` of a mixture of experts is one expert's, so ask its row
for parameters and not its shape.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.transformer.weights import Shape


@dataclass(frozen=True, slots=True)
class RealModel:
    """One published model."""

    shape: Shape
    """Of its attention; of a dense model of all of it."""
    n_parameters: int
    """All of them."""
    n_active: int
    """Those a token passes through; of a dense model all."""
    source: str
    """Where the figures stand."""
    windowed: tuple[int, int] = (0, 0)
    """(layers, window): so many layers attend only to the last tokens."""


_LLAMA2 = (
    "arXiv 2307.09288; meta-llama/Llama-2-*-hf config.json, as in github.com/Lightning-AI/litgpt, litgpt/config.py"
)
_LLAMA31 = "github.com/meta-llama/llama-models, models/llama3_1/api/sku_list.py"
_QWEN3 = "arXiv 2505.09388, tables 1 and 2; huggingface.co/Qwen/Qwen3-* config.json"
_GPT_OSS = "github.com/openai/gpt-oss, gpt_oss/torch/model.py; model card arXiv 2508.10925"
_V3 = Shape(61, 7168, 128, 1, 128, 2048, 129_280, d_latent=512, d_rope=64)
_GEMMA = "github.com/google/gemma_pytorch, gemma/config.py; arXiv 2408.00118"


def _dense(
    layers: int,
    d: int,
    heads: int,
    kv: int,
    d_head: int,
    ff: int,
    vocabulary: int,
    n: int,
    source: str,
    windowed: tuple[int, int] = (0, 0),
) -> RealModel:
    shape = Shape(layers, d, heads, kv, d_head, ff, vocabulary, is_tied="gemma" in source)
    return RealModel(shape, n, n, source, windowed)


REAL = {
    "Llama-2-7B": _dense(32, 4096, 32, 32, 128, 11008, 32_000, 6_738_415_616, _LLAMA2),
    "Llama-2-13B": _dense(40, 5120, 40, 40, 128, 13824, 32_000, 13_015_864_320, _LLAMA2),
    "Llama-2-70B": _dense(80, 8192, 64, 8, 128, 28672, 32_000, 68_976_648_192, _LLAMA2),
    "Llama-3.1-8B": _dense(32, 4096, 32, 8, 128, 14336, 128_256, 8_030_261_248, _LLAMA31),
    "Llama-3.1-70B": _dense(80, 8192, 64, 8, 128, 28672, 128_256, 70_553_706_496, _LLAMA31),
    "Llama-3.1-405B": _dense(126, 16384, 128, 8, 128, 53248, 128_256, 405_853_388_800, _LLAMA31),
    "Mistral-7B-v0.1": _dense(
        32, 4096, 32, 8, 128, 14336, 32_000, 7_241_732_096, "arXiv 2310.06825, table 1; its config.json", (32, 4096)
    ),
    "Qwen3-8B": _dense(36, 4096, 32, 8, 128, 12288, 151_936, 8_190_735_360, _QWEN3),
    "Qwen3-32B": _dense(64, 5120, 64, 8, 128, 25600, 151_936, 32_762_123_264, _QWEN3),
    "Qwen3-235B-A22B": RealModel(Shape(94, 4096, 64, 4, 128, 1536, 151_936), 235_000_000_000, 22_000_000_000, _QWEN3),
    "Gemma-2-9B": _dense(42, 3584, 16, 8, 256, 14336, 256_000, 9_241_705_984, _GEMMA, (21, 4096)),
    "Gemma-2-27B": _dense(46, 4608, 32, 16, 128, 36864, 256_000, 27_227_128_320, _GEMMA, (23, 4096)),
    "gpt-oss-20b": RealModel(
        Shape(24, 2880, 64, 8, 64, 2880, 201_088), 20_910_000_000, 3_610_000_000, _GPT_OSS, (12, 128)
    ),
    "gpt-oss-120b": RealModel(
        Shape(36, 2880, 64, 8, 64, 2880, 201_088), 116_830_000_000, 5_130_000_000, _GPT_OSS, (18, 128)
    ),
    "DeepSeek-V3": RealModel(_V3, 671_000_000_000, 37_000_000_000, "arXiv 2412.19437, section 4.2"),
}
"""Name → its row."""
