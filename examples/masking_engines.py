"""A mask in the fields of vLLM, SGLang and llama.cpp, and as a prefill in the call format of five families of models."""

import json

from contextkit import Phase, Phases, Tool, Toolbox
from contextkit.providers.masking.engines import ENGINES, engine_fields, engine_row, prefilled
from contextkit.providers.masking.formats import FORMATS, name_ebnf
from contextkit.tools.mask import Permit

NAMES = ["browser_open", "browser_close", "notes_read"]
TOOLS = Toolbox([Tool.raw({"name": name, "description": f"{name}.", "parameters": {"type": "object"}}) for name in NAMES])
PHASES = Phases({"browse": Phase(allow=["browser_*"], require=True)}, start="browse")

mask = Permit(PHASES, TOOLS).mask("browse")
allowed = [TOOLS[name] for name in mask.allowed]
for engine in ENGINES:
    print(f"{engine}: {engine_row(engine, mask).mechanism}")
    print(f"  {json.dumps(engine_fields(engine, mask, allowed, FORMATS['qwen']))[:120]}")
for name, form in FORMATS.items():
    message, fields = prefilled("vllm", mask, form)
    print(f"{name}: the reply begins {message['content']!r}, with {json.dumps(fields)}")
print(name_ebnf(FORMATS["mistral"], mask.allowed))
