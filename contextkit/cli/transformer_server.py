"""Serves the reference model as a local provider: it writes the replies, and its own KV cache makes the bill.

`TransformerServer` takes requests as the local provider parsed them and gives scripts of replies; it is a `PrefixCache`
of token ids, so that usage is what its blocks had and what they lacked. vLLM's rules (`cache/block`) run beside it, and
a request on which the two differ is an error. Every token is sampled from the logits under a mask: an untrained model
writes nothing sensible, but it chooses what the masks leave open (a tool, a value of an enum, letters).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from contextkit.analysis.engines import Engine
from contextkit.cache.block.block_cache import BlockCache
from contextkit.cache.block.engine import Shape as Blocks
from contextkit.cache.block.groups import Group
from contextkit.cache.block.ids import TokenIds
from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import ContextKitError, UsageError
from contextkit.models import model_named
from contextkit.providers.openai import chat_rendering as openai_chat
from contextkit.providers.provider import Parsed
from contextkit.providers.validation import ParsedRequest, ReceivedRequest
from contextkit.server.billing_selfhosted import SelfHosted
from contextkit.transformer.engine import Run, likeliest
from contextkit.transformer.kv_cache import ContiguousCache, Pool
from contextkit.transformer.masking import sampled
from contextkit.transformer.methods.prefix_blocks import PrefixEngine, names
from contextkit.transformer.model import Bytes, Model
from contextkit.transformer.ops import Array
from contextkit.transformer.weights import Shape, seeded

if TYPE_CHECKING:
    from contextkit.transformer.engine import Choose, Run
    from contextkit.transformer.engine import Engine as TransformerEngine
    from contextkit.transformer.masking import Mode
    from contextkit.transformer.ops import Array

LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz ")
"""What text and strings are sampled from: what the words of a model that knows no words are made of."""
MOST_TEXT, MOST_STRING = 40, 8
"""Bytes of a text and of a string in an argument, at most."""
_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_WORDS: Mapping[str, Mode] = {"any": "required", "required": "required", "none": "none", "auto": "auto"}
"""A provider's word → the mode it means."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a request leaves open about calls."""

    mode: Mode
    """As in `transformer/masking.py`."""
    names: tuple[str, ...]
    """Tools that may be called."""


def choice(body: Mapping[str, Json]) -> Choice:
    """Tools and `tool_choice` of any endpoint.

    >>> choice({"tools": [{"name": "a"}, {"name": "b"}], "tool_choice": {"type": "tool", "name": "b"}})
    Choice(mode='specified', names=('b',))
    """
    tools, asked = tuple(_schemas(body)), body.get("tool_choice") or "auto"
    if not tools:
        return Choice("none", ())
    if isinstance(asked, str) or asked["type"] in _WORDS:
        return Choice(_WORDS[asked if isinstance(asked, str) else asked["type"]], tools)
    allowed = asked.get("allowed_tools", asked)
    if asked["type"] == "allowed_tools":
        return Choice(_WORDS[allowed["mode"]], tuple(_name(tool) for tool in allowed["tools"]))
    return Choice("specified", (_name(asked),))


def _name(tool: Mapping[str, Json]) -> str:
    """Of a tool or a choice: Chat nests it."""
    name: str = tool.get("function", tool)["name"]
    return name


def _schemas(body: Mapping[str, Json]) -> dict[str, Json]:
    """Name of each tool → the schema of its arguments."""
    tools = [tool.get("function", tool) for tool in body.get("tools") or [] if "name" in tool.get("function", tool)]
    return {tool["name"]: tool.get("parameters") or tool.get("input_schema") or {} for tool in tools}


def _reply_schema(body: Mapping[str, Json]) -> Json:
    """The schema the reply's text must have; None for none."""
    text: Json = body.get("text") or {}
    asked: Json = body.get("response_format") or text.get("format") or {}
    return {"json_schema": asked.get("json_schema", asked).get("schema") or {}, "json_object": {}}.get(
        asked.get("type", "")
    )


class Speaker:
    """Writes one reply behind a prompt, token by token."""

    def __init__(self, engine: TransformerEngine, run: Run, logits: Array, choose: Choose) -> None:
        self._engine, self._run, self._logits, self._choose = engine, run, logits, choose

    def put(self, text: str) -> None:
        """Tokens there is no choice about."""
        for token in text.encode():
            (self._logits,) = self._engine.decode([self._run], [token])

    def pick(self, allowed: Callable[[Sequence[int]], Collection[int]], most: int) -> bytes:
        """Sample under a mask until it allows nothing but the end, the end is sampled, or there are `most`."""
        from contextkit.transformer.masking import masked
        from contextkit.transformer.model import Bytes

        made: list[int] = []
        while len(made) < most:
            token = self._choose(masked(self._logits[-1], allowed(made) or {Bytes.end}))
            if token == Bytes.end:
                break
            made.append(token)
            (self._logits,) = self._engine.decode([self._run], [token])
        return bytes(made)

    def one_of(self, options: Iterable[str]) -> str:
        """One of some texts, letter by letter; the end may be sampled where one is complete."""
        from contextkit.transformer.model import Bytes

        known = [[*option.encode(), Bytes.end] for option in options]
        return self.pick(
            lambda made: {option[len(made)] for option in known if option[: len(made)] == list(made)}, 1 << 20
        ).decode()

    def words(self, most: int, *, is_begun: bool = False) -> str:
        """Some letters, until the end is sampled."""
        from contextkit.transformer.model import Bytes

        return (
            self.pick(lambda made: LETTERS | {Bytes.end} if made or is_begun else LETTERS - {32}, most)
            .decode()
            .rstrip()
        )

    def json(self, schema: Json) -> str:
        """A value of a schema: required properties in its order, the first alternative, enums and letters sampled."""
        schema = schema if isinstance(schema, dict) else {}
        alternatives = schema.get("anyOf") or schema.get("oneOf")
        if alternatives:
            return self.json(alternatives[0])
        if "enum" in schema or "const" in schema:
            return self.one_of(canonical(value).decode() for value in schema.get("enum", [schema.get("const")]))
        kind = schema.get("type", "object")
        return _KINDS.get(kind[0] if isinstance(kind, list) else kind, _object)(self, schema)

    def emit(self, text: str) -> str:
        """`put`, and the text again."""
        self.put(text)
        return text


def _object(speaker: Speaker, schema: Json) -> str:
    properties = schema.get("properties") or {}
    text = speaker.emit("{")
    for i, name in enumerate(schema.get("required", ())):
        text += speaker.emit(("," if i else "") + canonical(name).decode() + ":") + speaker.json(
            properties.get(name, {"type": "string"})
        )
    return text + speaker.emit("}")


def _string(speaker: Speaker, schema: Json) -> str:
    return speaker.emit('"') + speaker.words(MOST_STRING) + speaker.emit('"')


_KINDS: Mapping[str, Callable[[Speaker, Json], str]] = {
    "object": _object,
    "string": _string,
    "array": lambda speaker, schema: (
        speaker.emit("[") + speaker.json(schema.get("items", {"type": "string"})) + speaker.emit("]")
    ),
    "integer": lambda speaker, schema: speaker.one_of(map(str, range(10))),
    "number": lambda speaker, schema: speaker.one_of(map(str, range(10))),
    "boolean": lambda speaker, schema: speaker.one_of(("true", "false")),
    "null": lambda speaker, schema: speaker.emit("null"),
}
"""Type in a schema → what writes a value of it."""


def parts(speaker: Speaker, body: Mapping[str, Json]) -> list[Json]:
    """A reply to `body`: a call where one is asked for, or where the model opens one itself; else JSON or letters."""
    asked, schema = choice(body), _reply_schema(body)
    if asked.mode in ("required", "specified"):
        return [_call(speaker, asked, body, "")]
    if schema is not None:
        return [{"type": "text", "text": speaker.json(schema)}]
    limit = min(MOST_TEXT, *(int(body[name]) for name in _LIMITS if body.get(name)), MOST_TEXT)
    opening = {ord("<")} if asked.mode == "auto" else set()
    first = speaker.pick(lambda made: LETTERS - {32} | opening, 1).decode()
    if first == "<":
        return [_call(speaker, asked, body, first)]
    return [{"type": "text", "text": first + speaker.words(limit - 1, is_begun=True)}]


def _call(speaker: Speaker, asked: Choice, body: Mapping[str, Json], begun: str) -> Json:
    """A call, of which `begun` is written: its name under the mask of the mode, its arguments by their schema."""
    from contextkit.transformer.masking import calls, prefill
    from contextkit.transformer.model import Bytes

    mode: Mode = "required" if asked.mode == "auto" else asked.mode
    made, mask = begun + speaker.emit(prefill(asked.names, mode)[len(begun) :]), calls(asked.names, mode, Bytes())
    while made.count('"') < 4:  # <tool_call>{"name": "…": the fourth quote ends the name
        made += speaker.pick(lambda new, made=made: mask([*made.encode(), *new]), 1).decode()  # type: ignore[misc]
    name = made.split('"')[3]
    speaker.put(', "arguments": ')
    arguments = speaker.json(_schemas(body)[name])
    speaker.put("}</tool_call>")
    return {"type": "call", "name": name, "arguments": parse(arguments.encode())}


SHAPE = Shape(n_layers=2, n_kv_heads=2)
CAPACITY_TOKENS = 65_536
"""Tokens its memory holds where nothing is said: 32 MB in float32."""


@dataclass(slots=True)
class _Running:
    """A request under way."""

    prompt: TokenIds
    lease: Lease
    run: Run
    logits: Array
    emit: list[int]
    """What it generated, in the provider's tokens."""


class TransformerServer:
    """One model, one cache: satisfies `PrefixCache[TokenIds]`, and called as a `ReplySource` it says what comes next.

    A token of the provider is one of the model's bytes by its remainder; blocks are known by the provider's ids, so
    that nothing is shared which differs. What was said is sampled in bytes on a copy, and joins the run in the tokens a
    later request will have in its place.
    """

    def __init__(self, block_size: int = 16, capacity_tokens: int = CAPACITY_TOKENS, seed: int = 0) -> None:
        """Raises `UsageError` for sizes no engine has."""
        if block_size < 1 or capacity_tokens < block_size:
            raise UsageError(
                f"{capacity_tokens} tokens in blocks of {block_size}: give at least one block of at least one token"
            )
        self._block, self._n_blocks, self._seed = block_size, capacity_tokens // block_size, seed
        self._model = Model(seeded(SHAPE, seed, "float32"))
        self._reference = BlockCache(Blocks(self._n_blocks + 1, (Group(size=block_size),)))
        self._books = SelfHosted(Engine("vllm", self))
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._reference.reset()
        self._engine = PrefixEngine(self._model, Pool(SHAPE, self._n_blocks, self._block, "float32"))
        self._running: dict[int, _Running] = {}
        self._ready: _Running | None = None

    def __call__(self, parsed: Parsed, body: Json) -> Json:
        """What to answer: the prompt is computed as far as it is not there, then tokens are sampled."""
        if self._ready:
            self.end(self._ready.lease, 0, 0.0)  # the bill was another cache's
        model = replace(model_named("gpt-4o"), name=parsed.model)
        asked = ParsedRequest(ReceivedRequest({}, body), parsed, model, (), False)
        self._ready = running = self._computed(self._books.cache_prompt(openai_chat.CODEC, asked), 0.0)
        seed = int.from_bytes(blake2b(array("q", running.prompt.tokens).tobytes(), digest_size=4).digest()) + self._seed
        choose = likeliest if body.get("temperature") == 0 else sampled(seed + int(body.get("seed") or 0))
        return {"parts": parts(Speaker(self._engine, self._copied(running.run), running.logits, choose), body)}

    def lookup(self, prompt: TokenIds, now: float) -> Hit:
        """What would be read now; changes nothing."""
        return self._reference.lookup(prompt, now)

    def quote(self, prompt: TokenIds, now: float) -> Usage:
        """What sending it now would be billed."""
        return self._reference.quote(prompt, now)

    def begin(self, prompt: TokenIds, now: float) -> Lease:
        """The bill of a prompt: rows that were in its blocks, and rows it computed."""
        ready, self._ready = self._ready, None
        if ready and ready.prompt != prompt:
            self.end(ready.lease, 0, now)
        running = ready if ready and ready.prompt == prompt else self._computed(prompt, now)
        return replace(running.lease, at=now)

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins: its blocks could be read from the start."""

    def generate(self, lease: Lease, tokens: list[int]) -> None:
        """Name what was said: all of it but the last token has rows, and full blocks of it can be read."""
        running = self._of(lease)
        running.emit.extend(tokens)
        ids = [*running.prompt.tokens, *running.emit]
        self._reference.generate(lease, list(tokens))
        if len(ids) - 1 > running.run.cache.n_rows:
            self._engine.feed([(running.run, _bytes(ids[:-1]))])
        self._engine.name(running.run, list(names(ids[:-1], self._block, _space(running.prompt))))

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: nobody holds its blocks, and they are kept until their room is needed."""
        running = self._of(lease)
        del self._running[lease.writes[0]]
        self._ready = None if self._ready is running else self._ready
        self._reference.end(lease, len(running.emit), now)
        running.run.cache.cut(0)
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters of the rules beside it, and the rows the model computed."""
        return {**self._reference.stats(), "rows_computed": self._engine.work.positions}

    def snapshot(self) -> bytes:
        """What the rules beside it remember; the rows themselves are not saved."""
        return self._reference.snapshot()

    def restore(self, state: bytes) -> None:
        """Not of a model: raises `UsageError`."""
        raise UsageError("rows of a running model are not saved: reset the server, and send the requests again")

    def _computed(self, prompt: TokenIds, now: float) -> _Running:
        """Compute what the blocks lack, and hold the bill against the rules."""
        known = list(names(prompt.tokens, self._block, _space(prompt)))
        before = self._engine.work.positions
        if len(prompt.tokens) > self._n_blocks * self._block:
            raise UsageError(
                f"{len(prompt.tokens)} tokens, and room for {self._n_blocks * self._block}: raise --capacity-tokens"
            )
        run, n_read, logits = self._engine.begin(_bytes(prompt.tokens), known, is_read_skipped=prompt.is_read_skipped)
        n_computed, lease = self._engine.work.positions - before, self._reference.begin(prompt, now)
        if (lease.usage.read, lease.usage.fresh) != (n_read, n_computed):
            rules = f"the rules read {lease.usage.read} and computed {lease.usage.fresh}"
            raise ContextKitError(
                f"of {len(prompt.tokens)} tokens the model read {n_read} and computed {n_computed}, {rules}"
            )
        running = self._running[lease.writes[0]] = _Running(prompt, lease, run, logits, [])
        return running

    def _copied(self, run: Run) -> Run:
        """A run of its own to sample on."""
        copy = ContiguousCache(SHAPE, "float32", n_reserved=run.cache.n_rows + 256)
        for i in range(SHAPE.n_layers):
            copy.write(i, 0, *run.cache.read(i, run.cache.n_rows, "float32"))
        copy.n_rows = run.cache.n_rows
        return Run(copy, list(run.tokens))

    def _of(self, lease: Lease) -> _Running:
        running = self._running.get(lease.writes[0])
        if running is None:
            raise UsageError("this lease has ended, or is of another cache: begin() the prompt here, and end() it once")
        return running


def _bytes(ids: Sequence[int]) -> list[int]:
    """The model's tokens."""
    return [token % Bytes.end for token in ids]


def _space(prompt: TokenIds) -> str:
    """What keeps its blocks from others'."""
    return f"{prompt.adapter.name if prompt.adapter else ''}\0{prompt.salt or ''}"
