"""Masks run through the grammar engines that vLLM and SGLang decode with: `python -m tests.conformance.grammars`.

Compiles every lowering of every call format (structural tags, expressions, grammars) and judges sampled calls with it:
calls of the tools allowed, calls of others, arguments that do not fit the schema. Prints one line an engine and format,
and exits with 1 where one is wrong. Needs `xgrammar` (and torch), `llguidance`, `outlines_core`; an engine that is not
installed is left out, and said so."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from contextkit import Tool
from contextkit.providers.call_formats import FORMATS, CallFormat, name_ebnf, name_regex, structural_tag, words_only

Judge = Callable[[str], bool]
"""A reply → whether the grammar takes the whole of it."""
END = 256
"""The token that ends a reply; 0 to 255 are the bytes."""
CALL_TOKENS = (
    b"<tool_call>",
    b"</tool_call>",
    b"[TOOL_CALLS]",
    b"[ARGS]",
    b'{"name',
    b'": "',
    b"browser",
    b"browser_",
    b"_open",
    b'",',
    b"}\n",
)
"""Tokens that tokenisers of these models have, some of which straddle a name."""


def _object(required: Sequence[str], **properties: Any) -> Any:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_TEXT = {"type": "string"}
SCHEMAS: dict[str, Any] = {
    "browser_open": _object(["url"], url=_TEXT, timeout={"type": "integer"}),
    "browser_close": _object([]),
    "browser_click": _object(
        ["x", "y"], x={"type": "integer"}, y={"type": "integer"}, button={"enum": ["left", "right"]}
    ),
    "notes_read": _object(["paths"], paths={"type": "array", "items": _TEXT}),
    "notes": _object(["all"], all={"type": "boolean"}),
    "report": _object(
        ["rows"], rows={"type": "array", "items": _object(["name", "price"], name=_TEXT, price={"type": "number"})}
    ),
    "reportx": _object(["note"], note={"type": ["string", "null"]}),
}
TOOLS = {name: Tool.raw({"name": name, "description": name, "parameters": schema}) for name, schema in SCHEMAS.items()}
ALLOWED = ("browser_open", "browser_close", "browser_click", "report")
"""What the mask of this page allows; `reportx` begins like one of them, `browse` is the beginning of one."""
FORBIDDEN = (*(name for name in TOOLS if name not in ALLOWED), "browser_op", "browse", "shell", "browser_open2")
_LETTERS = "abc XYZ0_-/é€\n\\'{}:<>"


def sample(schema: Any, draw: random.Random) -> Any:
    """A value that fits, in the order of its schema, as a model under a grammar would write it."""
    kind = schema.get("type")
    if "enum" in schema:
        return draw.choice(schema["enum"])
    return _SAMPLES[draw.choice(kind) if isinstance(kind, list) else kind](schema, draw)


_SAMPLES: dict[str, Callable[[Any, random.Random], Any]] = {
    "string": lambda schema, draw: "".join(draw.choices(_LETTERS, k=draw.randrange(12))),
    "integer": lambda schema, draw: draw.randrange(-99, 10**6),
    "number": lambda schema, draw: draw.choice([0.5, -3, 12.25, 7]),
    "boolean": lambda schema, draw: draw.random() < 0.5,
    "null": lambda schema, draw: None,
    "array": lambda schema, draw: [sample(schema["items"], draw) for _ in range(draw.randrange(4))],
    "object": lambda schema, draw: {
        name: sample(inner, draw)
        for name, inner in schema["properties"].items()
        if name in schema["required"] or draw.random() < 0.5
    },
}


def plain(arguments: Any) -> Any:
    """The same without what an XML element cannot hold as text: its own brackets, and blanks at its edges."""
    return json.loads(json.dumps(arguments).replace("<", "(").replace(">", ")").replace("\\n", " "))


def spoiled(name: str, arguments: Any) -> list[Any]:
    """Arguments that do not fit the schema of `name`: one unknown.

    The first missing, or of another type (as XML any text is a string).
    """
    others = {key: value for key, value in arguments.items() if key not in SCHEMAS[name]["required"][:1]}
    first = SCHEMAS[name]["required"][:1]
    retyped = [{key: {"of": "another type"}, **others} for key in first if SCHEMAS[name]["properties"][key] != _TEXT]
    return [{**arguments, "unknown": 1}, *([others] if first else []), *retyped]


@dataclass(frozen=True)
class Engine:
    """One grammar engine and what it compiles."""

    name: str
    makers: dict[str, Callable[[Any], Judge]]
    """tag, regex, ebnf → compiles one; those it has not are left out."""

    @property
    def version(self) -> str:
        return version(self.name)


def xgrammar() -> Engine:
    made = importlib.import_module("xgrammar")
    vocabulary = [*(bytes([byte]) for byte in range(256)), b"</s>", *CALL_TOKENS]
    info = made.TokenizerInfo(vocabulary, made.VocabType.RAW, stop_token_ids=[END])
    compiler = made.GrammarCompiler(info, max_threads=1)

    def judge(grammar: Any) -> Judge:
        def takes(text: str) -> bool:
            said = made.GrammarMatcher(grammar)
            return all(map(said.accept_token, greedy(text))) and said.accept_token(END)

        return takes

    return Engine(
        "xgrammar",
        {
            "tag": lambda tag: judge(compiler.compile_structural_tag(json.dumps(tag))),
            "regex": lambda pattern: judge(compiler.compile_regex(pattern)),
            "ebnf": lambda grammar: judge(compiler.compile_grammar(grammar)),
        },
    )


def greedy(text: str) -> Iterable[int]:
    """Ids of the longest tokens, one after another: 257 on are `CALL_TOKENS`."""
    rest = text.encode()
    while rest:
        found = max((token for token in CALL_TOKENS if rest.startswith(token)), key=len, default=None)
        yield rest[0] if found is None else 257 + CALL_TOKENS.index(found)
        rest = rest[len(found or b"1") :]


def llguidance() -> Engine:
    made = importlib.import_module("llguidance")

    class Bytes:
        """A tokeniser of bytes, in the form llguidance wraps."""

        eos_token_id, bos_token_id = END, None
        tokens = (*(bytes([byte]) for byte in range(256)), b"</s>")
        special_token_ids = (END,)

        def __call__(self, text: bytes | str) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    tokenizer = made.LLTokenizer(made.TokenizerWrapper(Bytes()))

    def judge(grammar: str) -> Judge:
        def takes(text: str) -> bool:
            said = made.LLMatcher(tokenizer, grammar)
            assert not said.is_error(), said.get_error()
            given = list(text.encode())
            return said.validate_tokens(given) == len(given) and said.consume_tokens(given) and said.is_accepting()

        return takes

    return Engine(
        "llguidance",
        {
            "regex": lambda pattern: judge(made.grammar_from("regex", pattern)),
            "ebnf": lambda grammar: judge(made.grammar_from("gbnf", grammar)),
        },
    )


def outlines_core() -> Engine:
    made = importlib.import_module("outlines_core")
    letters = {chr(code): code for code in range(128)} | {"é": 128, "€": 129}
    vocabulary = made.Vocabulary(END, {letter: [index] for letter, index in letters.items()})

    def judge(pattern: str) -> Judge:
        index = made.Index(pattern, vocabulary)

        def takes(text: str) -> bool:
            state = index.get_initial_state()
            for letter in text:
                state = index.get_next_state(state, letters[letter])
                if state is None:
                    return False
            return bool(index.is_final_state(state))

        return takes

    return Engine("outlines_core", {"regex": judge})


ENGINES: dict[str, Callable[[], Engine]] = {
    "xgrammar": xgrammar,
    "llguidance": llguidance,
    "outlines_core": outlines_core,
}


def wrong(form: CallFormat, kind: str, compiled: Callable[[Any], Judge], n: int = 40) -> list[str]:
    """What an engine judges otherwise than the mask says, of `n` sampled calls a tool; empty where all is right."""
    return [
        f"{form.name} {kind}: {'refused' if expected else 'took'} {said!r}"
        for expected, said, takes in _cases(form, kind, compiled, n)
        if takes(said) != expected
    ]


def _cases(form: CallFormat, kind: str, compiled: Callable[[Any], Judge], n: int) -> Iterable[tuple[bool, str, Judge]]:
    draw = random.Random(5)
    tools = [TOOLS[name] for name in ALLOWED]
    if kind == "tag":
        yield from _tag_cases(form, compiled, n, draw, tools)
        return
    takes = compiled({"regex": name_regex, "ebnf": name_ebnf}[kind](form, ALLOWED))
    for name in (*ALLOWED, *FORBIDDEN):
        for _ in range(n // 4):
            yield name in ALLOWED, _call(form, name, draw), takes
    yield False, "No call.", takes


def _call(form: CallFormat, name: str, draw: random.Random) -> str:
    arguments = sample(SCHEMAS.get(name, SCHEMAS["browser_open"]), draw)
    return form.call(name, plain(arguments) if form.style == "qwen_xml" else arguments)


def _tag_cases(
    form: CallFormat, compiled: Callable[[Any], Judge], n: int, draw: random.Random, tools: list[Tool]
) -> Iterable[Any]:
    free, forced, silent = (
        compiled(tag)
        for tag in (
            structural_tag(form, tools, require=False),
            structural_tag(form, tools, require=True),
            words_only(form),
        )
    )
    for name in (*ALLOWED, *FORBIDDEN):
        for _ in range(n if name in ALLOWED else n // 4):
            said, is_allowed = _call(form, name, draw), name in ALLOWED
            yield is_allowed, said, free
            yield is_allowed, said, forced
            yield is_allowed, f"Well, é. {said}", free
            yield False, f"Well. {said}", forced
            yield False, f"Well. {said}", silent
            yield is_allowed, said + "\n" + _call(form, "browser_close", draw), free
            yield False, said + "\n" + _call(form, "shell", draw), free
    for name in ALLOWED:
        for arguments in spoiled(name, plain(sample(SCHEMAS[name], draw))):
            yield False, form.call(name, arguments), free
            yield False, form.call(name, arguments), forced
    for takes, expected in ((free, True), (forced, False), (silent, True)):
        yield expected, "Nothing to call: 3 < 4, {} [].", takes


def main() -> int:
    n_wrong = 0
    for name, make in ENGINES.items():
        try:
            engine = make()
        except ImportError as missing:
            print(f"{name}: not installed ({missing})")
            continue
        for form in FORMATS.values():
            for kind, compiled in engine.makers.items():
                found = wrong(form, kind, compiled, n=200)
                n_wrong += len(found)
                n_cases = sum(1 for _ in _cases(form, kind, compiled, 200))
                print(
                    f"{name} {engine.version}  {form.name:<13} {kind:<6} {n_cases - len(found)} of {n_cases} judged as the mask says"
                )
                print("".join(f"    {line[:200]}\n" for line in found[:3]), end="")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
