"""The parameters of a request: what a caller gives to a provider or to one call, checked, and in the fields of each
endpoint.

- The form of a reply (`output=`): a pydantic model or a JSON schema, as OpenAI's strict subset and as Claude take it. A
  schema stands in front of the prompt or keys it, so it is set once: on OpenAI and Gemini another one loses everything,
  on Claude the messages. Responses from gpt-5.6 on change it behind the prompt (`OutputChanged`). What is required
  follows the SDKs (openai 3.52 lib/_pydantic.py, anthropic 2.11 lib/_parse/_transform.py), without titles, which only
  cost tokens, and with `anyOf` for `oneOf`.
- `extra_body` and `extra_headers`: fields and headers without a name here. What the log or the client decides is
  refused.
- The routing key (`CacheKey`): derived, so that a conversation comes back to the machine that has its prefix. A
  `prompt_cache_key` is shared by all conversations that share a head. Above about 15 requests a minute of one key OpenAI
  lets other machines answer, so a busy head is spread over as many keys as it takes; a conversation and its branches
  keep theirs. From gpt-5.6 on the key chooses no machine and only separates caches, so none is sent
  (https://developers.openai.com/api/docs/guides/prompt-caching). A session id or an affinity header is one
  conversation's. The key is a hash: it holds no text, path or name.
- How long a reply may get, and requests that only fill the cache.

Sources: openai 3.52 (shared_params/response_format_json_schema.py,
responses/response_format_text_json_schema_config_param.py,
responses/response_configuration_update_item_param_param.py), anthropic 2.11 (types/json_output_format_param.py),
botocore 1.44 bedrock-runtime `OutputConfig`, google.genai.types.GenerateContentConfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, get_origin

from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply, UsageError
from contextkit.facts.parameters import TABLES, is_listed, keying
from contextkit.log.entry import Change
from contextkit.models import Model
from contextkit.prompt.prompt import Grammar, PromptLayout
from contextkit.providers.provider import Provider
from contextkit.providers.sdk_endpoints import declared_fields
from contextkit.tools.signature import without_titles

_NAMED = ("properties", "$defs", "definitions")
_LISTED = ("anyOf", "allOf")
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
"""Formats of a text that Claude takes."""
_OF_CLAUDE: Mapping[str, Callable[[Mapping[str, Json]], bool]] = {
    **dict.fromkeys(
        (
            "type",
            "description",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "anyOf",
            "allOf",
            "enum",
            "const",
            "$defs",
            "$ref",
        ),
        lambda schema: True,
    ),
    "format": lambda schema: schema.get("type") == "string" and schema["format"] in _FORMATS,
    "minItems": lambda schema: schema.get("type") == "array" and schema["minItems"] in (0, 1),
}
"""Keyword → whether Claude takes it in this schema; what it does not take is said in the description."""
Step = Callable[[Json, str], Json]


def strict(schema: Json) -> Json:
    """The schema as OpenAI's strict mode takes it: every property required, no other allowed.

    Raises `UsageError`, naming the place, for what has no strict form: an answer that is no object, an object with any
    keys, a circle of references that carry descriptions.

    >>> strict({"type": "object", "properties": {"n": {"type": "integer", "default": None}}})
    {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'], 'additionalProperties': False}
    """
    root = _inlined(schema, schema, "") if "$ref" in schema else schema
    if root.get("type") != "object":
        raise UsageError("output: a reply's form is an object; put a list or a union under a field of one")
    return _strict(root, schema, "output", ())


def _strict(schema: Json, root: Json, path: str, within: tuple[str, ...]) -> Json:
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema and len(schema) > 1:
        if schema["$ref"] in within:
            raise UsageError(
                f"{path}: refers to itself with a description beside it, which has no strict form: leave the description out"
            )
        return _strict(_inlined(schema, root, path), root, path, (*within, schema["$ref"]))
    plain = _alone(_unified(schema))
    made = _walked(plain, path, lambda inner, at: _strict(inner, root, at, within))
    if made.get("default", made) is None:
        del made["default"]
    if "properties" in made:
        made["required"] = list(made["properties"])
    if made.get("type") == "object" and made.setdefault("additionalProperties", False) is not False:
        raise UsageError(
            f"{path}: an object with any keys has no strict form: name its fields, or use a list of key and value"
        )
    return made


def claude(schema: Json) -> Json:
    """The schema as Claude takes it; bounds and patterns it does not take stand in the description.

    >>> claude({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}})["properties"]["n"]
    {'type': 'integer', 'description': 'minimum: 1'}
    """
    return _claude(schema, "output")


def _claude(schema: Json, path: str) -> Json:
    if not isinstance(schema, Mapping):
        return schema
    plain = _walked(_unified(schema), path, _claude)
    if "$ref" in plain:
        return {key: value for key, value in plain.items() if key in ("$ref", "$defs")}
    made = {key: value for key, value in plain.items() if key in _OF_CLAUDE and _OF_CLAUDE[key](plain)}
    rest = [f"{key}: {value}" for key, value in plain.items() if key not in made]
    if rest:
        made["description"] = "\n\n".join([*([made["description"]] if "description" in made else []), ", ".join(rest)])
    if "enum" in made or "const" in made:
        made.pop("type", None)
    if made.get("type") == "object":
        made.setdefault("properties", {})
        made["additionalProperties"] = False
    return made


def _walked(schema: Mapping[str, Json], path: str, step: Step) -> dict[str, Json]:
    """The schema with `step` made in each schema inside it."""
    made = dict(schema)
    for keyword in _NAMED:
        if isinstance(made.get(keyword), Mapping):
            made[keyword] = {name: step(inner, f"{path}.{name}") for name, inner in made[keyword].items()}
    for keyword in _LISTED:
        if isinstance(made.get(keyword), list):
            made[keyword] = [step(inner, f"{path}.{keyword}[{index}]") for index, inner in enumerate(made[keyword])]
    if isinstance(made.get("items"), Mapping):
        made["items"] = step(made["items"], f"{path}[]")
    return made


def _unified(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {"anyOf" if key == "oneOf" else key: value for key, value in schema.items() if key != "discriminator"}


def _alone(schema: dict[str, Json]) -> dict[str, Json]:
    """`allOf` of one schema is that schema."""
    listed = schema.get("allOf")
    if not isinstance(listed, list) or len(listed) != 1:
        return schema
    return {**{key: value for key, value in schema.items() if key != "allOf"}, **listed[0]}


def _inlined(schema: Mapping[str, Json], root: Json, path: str) -> Json:
    """Merge a reference with the fields beside it, which win."""
    target: Any = root
    for step in str(schema["$ref"]).removeprefix("#/").split("/"):
        target = target.get(step) if isinstance(target, Mapping) else None
    if not isinstance(target, Mapping):
        raise UsageError(f"{path or 'output'}: {schema['$ref']} names nothing in the schema")
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


FIELD = "output"
"""What a caller calls it, at every provider and for one request."""
IN_BAND = "configuration_update"
"""The way to tell an event that can change it behind the prompt."""
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Output:
    """The form of a reply."""

    name: str
    """What it is called: 1 to 64 of a-z A-Z 0-9 _ -."""
    schema: Json
    """JSON Schema of it."""
    kind: Any = None
    """The type its value is of; None for plain JSON."""


def output_of(given: Any) -> Output:
    """A pydantic model, a dataclass, any other type pydantic knows, or a JSON schema, as the form of a reply.

    Raises `UsageError` for anything else.

    >>> output_of({"title": "Price", "type": "object", "properties": {"usd": {"type": "number"}}}).name
    'Price'
    """
    if isinstance(given, Output):
        return given
    if isinstance(given, Mapping):
        return Output(_name(str(given.get("title") or FIELD)), without_titles(dict(given)))
    if not isinstance(given, type) and get_origin(given) is None:
        raise UsageError(f"{FIELD}= is a pydantic model, a type or a JSON schema, not {type(given).__name__}")
    return _of_type(given)


def _of_type(given: Any) -> Output:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        schema = TypeAdapter(given).json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        raise UsageError(
            f"{FIELD}={getattr(given, '__name__', given)}: it has no JSON schema: use a pydantic model"
        ) from error
    return Output(_name(getattr(given, "__name__", FIELD)), without_titles(schema), given)


def _name(text: str) -> str:
    return _FOREIGN.sub("_", text)[:_LONGEST_NAME] or FIELD


def _openai(output: Output) -> dict[str, Json]:
    return {"name": output.name, "schema": strict(output.schema), "strict": True}


def _converse(output: Output) -> Json:
    return {"jsonSchema": {"schema": canonical(claude(output.schema)).decode(), "name": output.name}}


FIELDS: Mapping[str, Callable[[Output], dict[str, dict[str, Json]]]] = {
    "openai_chat": lambda output: {"response_format": {"type": "json_schema", "json_schema": _openai(output)}},
    "openai_responses": lambda output: {"text": {"format": {"type": "json_schema", **_openai(output)}}},
    "anthropic_messages": lambda output: {
        "output_config": {"format": {"type": "json_schema", "schema": claude(output.schema)}}
    },
    "bedrock_converse": lambda output: {
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": _converse(output)}}
    },
    "gemini": lambda output: {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": output.schema},
    },
}
"""Wire → the fields that ask for a form."""


def lowered(
    wire: str, params: Mapping[str, Any], own: Mapping[str, Json] | None = None
) -> tuple[Output | None, dict[str, Json]]:
    """The form asked for, and the parameters with it in the words of `wire`.

    `own` are those of the provider, for one request.

    `output=None` takes the provider's out of one request. Raises `UsageError` where the field says a form already.
    """
    plain = {name: value for name, value in params.items() if name != FIELD}
    if FIELD not in params:
        return None, plain
    output = None if params[FIELD] is None else output_of(params[FIELD])
    for name, said in FIELDS[wire](output or Output(FIELD, {"type": "object", "properties": {}})).items():
        if taken := (plain.get(name) or {}).keys() & said.keys():
            raise UsageError(f"{name}.{min(taken)} and {FIELD}= both say the form of a reply: leave one out")
        kept = {
            key: value
            for key, value in {**((own or {}).get(name) or {}), **(plain.get(name) or {})}.items()
            if key not in said
        }
        merged = {**kept, **(said if output else {})}
        if merged or name in plain or name in (own or {}):
            plain[name] = merged or None
    return output, plain


@dataclass(frozen=True, slots=True)
class OutputChanged(Change):
    """Another form of reply from here on, `None` for plain text: `context.notice(OutputChanged(Invoice))`.

    Responses from gpt-5.6 on take it behind the prompt; elsewhere `notice` raises `UsageError` and says what a change
    would cost.
    """

    kind = "output"
    output: Any
    """A pydantic model, a type, a JSON schema, or None."""

    @property
    def text(self) -> str:
        """The text for a model that takes no such setting."""
        if self.output is None:
            return "Answer in plain text from here on."
        output = output_of(self.output)
        return f"Answer from here on with JSON alone, of this schema ({output.name}):\n{canonical(strict(output.schema)).decode()}"

    @property
    def body(self) -> Json:
        """Body of the `notice` entry; the schema in it is the one that is sent, frozen."""
        said = {} if self.output is None else {key: _openai(output_of(self.output))[key] for key in ("name", "schema")}
        return {"text": self.text, "event": {"type": self.kind, **said}}


def format_of(event: Mapping[str, Json]) -> Json:
    """An event as `text.format` of Responses."""
    if "schema" not in event:
        return {"type": "text"}
    return {"type": "json_schema", "name": event["name"], "schema": event["schema"], "strict": True}


def in_force(event: Mapping[str, Json] | None, provider: Any) -> Output | None:
    """The form replies have now: that of the last event, where the provider takes it, else the provider's.

    None for plain text.
    """
    if event is None or provider.noticing != IN_BAND:
        own: Output | None = getattr(provider, FIELD, None)
        return own
    return Output(event["name"], event["schema"]) if "schema" in event else None


def read(text: str, stop: str | None, output: Output) -> Any:
    """The value a reply says, of the type its form was made of; plain JSON where it was made of a schema.

    Raises `UnreadableReply`, without a word of the reply, where it is cut, refused, or of another form.
    """
    from pydantic import TypeAdapter, ValidationError

    if stop in ("truncated", "refused", "overflow"):
        raise UnreadableReply(f"the reply was {stop}, so it is no {output.name}: ask again, with more room for output")
    try:
        return TypeAdapter(Any if output.kind is None else output.kind).validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the reply"
        raise UnreadableReply(f"the reply is no {output.name}: {where}: {fault['type']}; ask again") from None


def out_of_band(provider: Any, n_tokens: int) -> str:
    """Return the remedy where a change of form cannot be announced behind the prompt; `n_tokens` of it would be paid
    for anew.
    """
    return (
        f"{provider.model.name} on {provider.wire} takes no other form of reply behind the prompt: the next request would pay for "
        f"{n_tokens:,} tokens (estimated) that are cached now. To pay once, context.provider = …({FIELD}=…), and to pay for one call, "
        f"context.request({FIELD}=…); a union of both forms from the beginning costs nothing"
    )


HEADERS, BODY = "extra_headers", "extra_body"
"""What a caller calls the two, at every provider and for one request."""
OUTPUT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Where the wires say how long a reply may get."""
NESTED: Mapping[str, str] = {"inferenceConfig": "maxTokens", "generationConfig": "maxOutputTokens"}
"""Field of a wire that holds it one level down → its name there."""
BETA = "anthropic-beta"
"""The header that names beta features; what several say of it is said together."""
_SAID: Mapping[str, frozenset[str]] = {
    "openai_responses": frozenset({"instructions", "previous_response_id", "conversation"})
}
"""Wire → more fields that say what only the log may say."""
_CLIENTS = frozenset({"timeout", "extra_query"})
"""Arguments of the SDKs that are no fields."""


def apart(given: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, Json], dict[str, str]]:
    """Plain parameters, the fields of `extra_body`, and `extra_headers`; the fields win over parameters of their name.

    Raises `UsageError` where one of the two is no dict.

    >>> apart({"temperature": 1, "extra_body": {"seed": 7}, "extra_headers": {"x-trace": 8}})
    ({'temperature': 1}, {'seed': 7}, {'x-trace': '8'})
    """
    plain = {name: value for name, value in given.items() if name not in (HEADERS, BODY)}
    headers, extra = (_mapping(name, given.get(name)) for name in (HEADERS, BODY))
    return plain, dict(extra), {str(name): str(value) for name, value in headers.items()}


def merged(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Both, `given` first.

    A name is one name however it is spelled, and where both name beta features, all of them are.

    >>> merged({"anthropic-beta": "a", "X-Trace": "1"}, {"anthropic-beta": "b", "x-trace": "2"})
    {'anthropic-beta': 'a,b', 'x-trace': '2'}
    """
    again = {name.lower(): name for name in given}
    kept = {name: value for name, value in own.items() if name.lower() not in again}
    betas = [value for name, value in own.items() if name.lower() == BETA and BETA in again]
    told = {again[BETA]: ",".join([*betas, given[again[BETA]]])} if betas else {}
    return {**kept, **given, **told}


def check_fields(params: Mapping[str, Json], wire: str, grammar: Grammar, least: int) -> None:
    """Raises `UsageError` for a field that is not a parameter's to set, and for a length that is none.

    `least`: the shortest.
    """
    said = {name for name, value in params.items() if value is not None}
    if taken := said & {*grammar.arrays.values(), *_SAID.get(wire, ())}:
        raise UsageError(
            f"{', '.join(sorted(taken))}: the log says that, no parameter; context.resystem(…), context.retool(…) change it"
        )
    if foreign := said & _CLIENTS:
        raise UsageError(
            f"{', '.join(sorted(foreign))}: the client's business, not the request's; use client.with_options(…)"
        )
    for name, asked in _lengths(params):
        if type(asked) is not int:
            raise UsageError(f"{name} is a number of tokens, not {type(asked).__name__}")
        if asked < least:
            raise UsageError(f"{name}={asked}: how many tokens a reply may have, {least} or more")


def check_names(names: Iterable[str], wire: str) -> None:
    """Raises `UsageError` for a parameter that neither the endpoint's tables list nor its installed SDK declares.

    Without the SDK, and for an endpoint that is not ours, nothing is refused.
    """
    unlisted = [name for name in names if wire in TABLES and not is_listed(wire, name)]
    declared = declared_fields(wire) if unlisted else frozenset()
    unknown = next((name for name in unlisted if declared is not None and name not in declared), None)
    if unknown is not None:
        listed = {name for table in map(keying, TABLES[wire]) for name in (*table.levels, *table.neutral)}
        close = get_close_matches(unknown, sorted(listed.union(declared or ())), n=1)
        near = f"; did you mean {close[0]!r}?" if close else "."
        raise UsageError(
            f"{unknown}: {wire} has no parameter of this name{near} A field that its SDK does not declare goes into "
            f"extra_body={{{unknown!r}: …}}"
        )


def _lengths(params: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield the fields that limit the length of a reply, by name."""
    found = [(name, params.get(name)) for name in OUTPUT_FIELDS]
    found += [
        (name, held.get(name)) for field, name in NESTED.items() if isinstance(held := params.get(field), Mapping)
    ]
    return ((name, asked) for name, asked in found if asked is not None)


def _mapping(name: str, value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping | None):
        raise UsageError(f"{name} is a dict, not {type(value).__name__}")
    return value or {}


PER_KEY = 15
"""Requests a minute that one machine answers for one key (prompt caching guide)."""
AUTO = "auto"
"""What stands for `CacheKey()`."""
_KEY = "prompt_cache_key"
_HEAD = 1
"""Level whose end is the end of the head, among `level_ends`."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """A key to be derived: `prompt_cache_key=CacheKey(requests_per_minute=60)`, or `"auto"` for one machine's worth."""

    requests_per_minute: int = PER_KEY
    """Calls a minute, of all conversations that share a head, at the busiest."""

    def __post_init__(self) -> None:
        """Raises `UsageError` for what is no number from 1."""
        if type(self.requests_per_minute) is not int or self.requests_per_minute < 1:
            raise UsageError(
                f"requests_per_minute={self.requests_per_minute!r}: how many calls a minute share a head, 1 or more"
            )

    @property
    def n_shards(self) -> int:
        """Keys over which a head is spread.

        >>> CacheKey(60).n_shards, CacheKey(61).n_shards
        (4, 5)
        """
        return -(-self.requests_per_minute // PER_KEY)


@dataclass(frozen=True, slots=True)
class Affinity:
    """Where a derived key goes."""

    key: CacheKey
    """What was asked for."""
    name: str
    """Field of the body, or header."""
    is_header: bool
    """Which of the two."""


@dataclass(frozen=True, slots=True)
class Routing:
    """What one request says of the machine it wants, and why."""

    fields: Mapping[str, Json] = field(default_factory=dict)
    """Body fields."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Extra headers."""
    key: str | None = None
    """The key, None where none is sent."""
    why: str = ""
    """In words."""


def split(
    params: Mapping[str, Any], headers: Mapping[str, Any]
) -> tuple[Affinity | None, dict[str, Json], Mapping[str, str]]:
    """Parameters and headers without the key that is to be derived, and that key."""
    asked = {name: _requested_output(value) for name, value in params.items() if _is_requested(name, value)}
    above = {name: _requested_output(value) for name, value in headers.items() if _is_requested("", value)}
    found = [Affinity(key, name, False) for name, key in asked.items()] + [
        Affinity(key, name, True) for name, key in above.items()
    ]
    plain = {name: value for name, value in params.items() if name not in asked}
    return (found[0] if found else None), plain, {name: value for name, value in headers.items() if name not in above}


def routing(provider: Any, layout: PromptLayout, conversation: bytes) -> Routing:
    """Return how the next request of `conversation` (the identity of its log) finds the machine that has its prefix."""
    affinity, model = getattr(provider, "affinity", None), provider.model
    if affinity is None:
        own = provider.params.get(_KEY)
        return Routing(key=None if own is None else str(own))
    if affinity.name == _KEY and is_needless(model):
        return Routing(
            why=f"none: {model.name} finds caches by prefix, and another key would only keep conversations apart"
        )
    key, why = _derived(affinity, layout, conversation)
    sent = {affinity.name: key}
    return Routing(headers=sent, key=key, why=why) if affinity.is_header else Routing(fields=sent, key=key, why=why)


def is_needless(model: Model) -> bool:
    """Return whether a key chooses no machine: OpenAI's models from gpt-5.6 on."""
    return model.provider == "openai" and model.cache == "breakpoints"


def _derived(affinity: Affinity, layout: PromptLayout, conversation: bytes) -> tuple[str, str]:
    end = layout.columns.level_ends[_HEAD]
    if affinity.name != _KEY:
        return _hash(conversation), f"{affinity.name}: this conversation's and its branches'"
    if not end:
        return _hash(conversation), "there is no head to share, so it is this conversation's and its branches'"
    n = affinity.key.n_shards
    shard = int.from_bytes(blake2b(conversation, digest_size=8).digest()) % n
    key = _hash(layout.columns.digests[end - 1], shard.to_bytes(4))
    spread = f", shard {shard + 1} of {n} for {affinity.key.requests_per_minute} calls a minute" if n > 1 else ""
    return key, f"shared with conversations that have this head{spread}"


def _hash(*facts: bytes) -> str:
    return f"ck-{blake2b(b''.join(facts), digest_size=12).hexdigest()}"


def _is_requested(name: str, value: object) -> bool:
    return isinstance(value, CacheKey) or (name == _KEY and value == AUTO)


def _requested_output(value: Any) -> CacheKey:
    return value if isinstance(value, CacheKey) else CacheKey()


MODEL_FIELDS = ("model", "modelId")
"""Where they say which model is asked."""


def parameters(
    provider: Provider,
    overrides: Mapping[str, Json],
    decided: Mapping[str, Json] | None = None,
    above: Mapping[str, str] | None = None,
) -> tuple[dict[str, Json], dict[str, str]]:
    """Fields and extra headers of a request.

    `decided` are the fields its mask and its key say themselves in, `above` its key's header.

    None leaves a field out.

    Raises `UsageError` for a field that is not a parameter's to set, `NotSerialisable` for a value JSON cannot carry.
    """
    given, extra, headers = apart(lowered(provider.wire, overrides, provider.params)[1])
    params = {
        name: value
        for name, value in {**provider.params, **(decided or {}), **given, **extra}.items()
        if value is not None
    }
    check_fields(params, provider.wire, provider.grammar, getattr(provider, "least_output", 0))
    if not getattr(provider, "takes_own_fields", False):
        check_names((name for name in given if given[name] is not None), provider.wire)
    named = next(field for field in MODEL_FIELDS if field in provider.params)
    if params.get(named) != provider.params[named]:
        raise UsageError("model: each model has its own cache and prices; set context.provider to one made for it")
    all_headers = merged({**provider.headers, **(above or {})}, headers)
    canonical(params)
    return params, all_headers


def output_tokens(params: Mapping[str, Json]) -> int:
    """Return how long a reply may get, 0 where a request does not say, or says it in a form that no provider reads.

    Of several fields the largest counts. Text is read as lenient servers read it.

    >>> output_tokens({"max_tokens": 9}), output_tokens({"inferenceConfig": {"maxTokens": "8"}}), output_tokens({"max_tokens": []})
    (9, 8, 0)
    """
    nested = [held.get(name) for field, name in NESTED.items() if isinstance(held := params.get(field), Mapping)]
    asked = [value for value in (*(params.get(name) for name in OUTPUT_FIELDS), *nested) if value is not None]
    numbers = [whole_number(value) for value in asked]
    return 0 if None in numbers else max((number or 0 for number in numbers), default=0)


def with_output_limit(wire: str, params: Mapping[str, Json], n_tokens: int, chat_field: str) -> dict[str, Json]:
    """Parameters that limit a reply to so many tokens, in the fields that they say it in already, or in the endpoint's.

    `chat_field` is the field of a host of Chat Completions. Unchanged where the endpoint has none that is known.

    >>> with_output_limit("gemini", {}, 9, ""), with_output_limit("openai_chat", {"max_tokens": 20}, 9, "max_completion_tokens")
    ({'generationConfig': {'maxOutputTokens': 9}}, {'max_tokens': 9})
    """
    flat = [name for name in OUTPUT_FIELDS if params.get(name) is not None]
    nested = _NESTED_OF.get(wire)
    if nested is not None:
        return {**params, nested: {**(params.get(nested) or {}), NESTED[nested]: n_tokens}}
    own = {"anthropic_messages": "max_tokens", "openai_responses": "max_output_tokens", "openai_chat": chat_field}
    return {**params, **dict.fromkeys(flat or ([own[wire]] if wire in own else []), n_tokens)}


_NESTED_OF = {"bedrock_converse": "inferenceConfig", "gemini": "generationConfig"}
_MOST = 1 << 40
"""No provider generates more: a larger number would leave what a price can be computed of."""


def whole_number(value: Json) -> int | None:
    """The number that a field asks for, as lenient servers read it; None where none would.

    >>> whole_number(900), whole_number(" 900 "), whole_number(900.0), whole_number("nine"), whole_number(-1)
    (900, 900, 900, None, None)
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(min(number, _MOST)) if number >= 0 and number % 1 == 0 else None


def is_prewarm(params: Mapping[str, Json]) -> bool:
    """Return whether a request only fills the cache.

    >>> is_prewarm({"max_tokens": 0}), is_prewarm({"prompt_cache_options": {"prewarm": True}}), is_prewarm({"max_tokens": 1})
    (True, True, False)
    """
    options = params.get("prompt_cache_options")
    return params.get("max_tokens") == 0 or (isinstance(options, Mapping) and bool(options.get("prewarm")))


def prewarming(provider: Provider) -> dict[str, Json]:
    """Return the fields that turn a request of `provider` into one that only fills the cache.

    Raises `UsageError` where the endpoint has no such request.

    Anthropic: `max_tokens=0` (platform.claude.com/docs/en/build-with-claude/prompt-caching); Responses: an option of
    `prompt_cache_options` (responses/response_create_params.py:482).
    """
    if provider.wire == "anthropic_messages":
        return {"max_tokens": 0}
    if provider.wire == "openai_responses" and provider.model.cache == "breakpoints":
        return {"prompt_cache_options": {**(provider.params.get("prompt_cache_options") or {}), "prewarm": True}}
    raise UsageError(
        f"{provider.model.name} on {provider.wire} has no request that only fills the cache: send a short one instead"
    )
