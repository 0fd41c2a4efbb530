"""The form of a reply: lowered as the SDKs lower it, taken by every endpoint's own types, read back, changed in band
where it can be."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from anthropic.lib._parse._transform import transform_schema
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from hypothesis import given
from hypothesis import strategies as st
from openai.lib._pydantic import to_strict_json_schema
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import BaseModel, Field, create_model

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAICompatible, OpenAIResponses, watch
from contextkit.canonical import parse
from contextkit.errors import UnreadableReply, UsageError
from contextkit.providers.bedrock.converse import BedrockConverse
from contextkit.providers.gemini.generate import Gemini
from contextkit.providers.reply_form import OutputChanged, claude, strict
from contextkit.server import LocalServer
from contextkit.tools.signature import without_titles
from tests.context.desk import WIRES, Desk, bill, honest, says
from tests.context.head import SYSTEM, add
from tests.providers.strict import faults


class Currency(Enum):
    """Money."""

    EUR = "eur"
    USD = "usd"


class Line(BaseModel):
    """One line."""

    text: str
    amount: Annotated[float, Field(ge=0, description="In the invoice's currency.")]
    due: Annotated[str | None, Field(json_schema_extra={"format": "date"})] = None


class Invoice(BaseModel):
    """An invoice."""

    number: Annotated[str, Field(pattern=r"\d+")]
    currency: Annotated[Currency, Field(description="Whose money.")] = Currency.EUR
    lines: Annotated[list[Line], Field(min_length=2)]
    first: Annotated[Line, Field(description="The first of them.")]
    state: Literal["open", "paid"]


class Tree(BaseModel):
    """A tree."""

    name: str
    children: list[Tree] = []


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"]
    trick: str | None


class Pet(BaseModel):
    """A pet."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Plan(BaseModel):
    """A plan."""

    steps: list[str]


INVOICE = {
    "number": "7",
    "currency": "usd",
    "state": "open",
    "first": {"text": "a", "amount": 1, "due": None},
    "lines": [{"text": "a", "amount": 1, "due": None}, {"text": "b", "amount": 2.5, "due": None}],
}
PROVIDERS: dict[str, Any] = {
    "chat": lambda **more: OpenAIChat("gpt-6.1-sol", max_tokens=1024, **more),
    "responses": lambda **more: OpenAIResponses("gpt-6.1-sol", max_output_tokens=1024, **more),
    "anthropic": lambda **more: AnthropicMessages("claude-sonnet-5-5", max_tokens=1024, **more),
}
PARAMS: dict[str, Any] = {
    "chat": CompletionCreateParamsNonStreaming,
    "responses": ResponseCreateParamsNonStreaming,
    "anthropic": MessageCreateParamsNonStreaming,
}
PLACES = {"chat": "response_format", "responses": "text", "anthropic": "output_config"}


@pytest.fixture(params=PROVIDERS)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def running() -> Any:
    with LocalServer(now=1000.0) as server:
        yield server


@pytest.fixture
def desk(wire: str, running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES[wire], running)


@pytest.fixture
def responses(running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES["responses"], running)


def begun(desk: Desk, wire: str, **options: Any) -> Context:
    context = Context(PROVIDERS[wire](**options), system=SYSTEM, tools=[add], clock=desk.server.clock.now)
    context.user("Read the invoice.")
    return context


def plain(schema: Any, *, without: tuple[str, ...] = ()) -> Any:
    """A schema as the oracle gives it, without what we leave out on purpose."""
    if isinstance(schema, list):
        return [plain(item, without=without) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: plain(value, without=without) for key, value in schema.items() if key not in without}


@pytest.mark.parametrize("model", [Invoice, Tree])
def test_each_provider_is_sent_what_its_own_sdk_would_send_but_for_wording_to_claude(model: Any) -> None:
    schema = without_titles(model.model_json_schema())
    assert strict(schema) == without_titles(to_strict_json_schema(model))
    made, theirs = claude(schema), without_titles(transform_schema(model))
    assert plain(made, without=("description",)) == plain(theirs, without=("description",))
    assert not str(made).count("minimum") - str(made).count("minimum: ")


KINDS: list[Any] = [
    str,
    int,
    bool,
    float | None,
    Currency,
    list[str],
    Literal["a", "b"],
    list[Line],
    Line | Cat,
    Annotated[int, Field(ge=1, le=9)],
    Annotated[Line, Field(description="A line.")],
]


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
def test_forms_made_up_are_lowered_as_both_sdks_lower_them(kinds: list[Any], has_default: list[bool]) -> None:
    fields: dict[str, Any] = {
        f"f{n}": (kind | None, None) if has_default[n] and isinstance(kind, type) else (kind, ...)
        for n, kind in enumerate(kinds)
    }
    model = create_model("Made", **fields)
    raw = without_titles(model.model_json_schema())
    assert strict(raw) == without_titles(to_strict_json_schema(model))
    assert plain(claude(raw), without=("description",)) == plain(
        without_titles(transform_schema(model)), without=("description",)
    )


def test_a_union_told_apart_by_a_field_is_one_both_take() -> None:
    for lower in (strict, claude):
        pet = lower(without_titles(Pet.model_json_schema()))["properties"]["pet"]
        assert list(pet) == ["anyOf"] and len(pet["anyOf"]) == 2


def test_every_endpoint_takes_it_and_the_reply_is_read_back(desk: Desk, wire: str) -> None:
    context = begun(desk, wire, output=Invoice)
    request = desk.ask(context, says(str(Invoice.model_validate(INVOICE).model_dump_json())))
    assert faults(PARAMS[wire], parse(request.body)) == []
    assert context.parsed() == Invoice.model_validate(INVOICE)
    assert context.parsed(dict)["number"] == "7"
    context.user("Again.")
    again = desk.ask(context, says("{}"))
    assert bill(context.ledger[-1].usage) == bill(again.predicted) and (again.predicted.read or 0) > 1_000
    honest(desk, context)


def test_bedrock_and_gemini_take_it_too() -> None:
    types = pytest.importorskip("google.genai.types", reason="the SDK of the extra `gemini` is not installed")
    validate = pytest.importorskip("botocore.validate", reason="the SDK of the extra `bedrock` is not installed")
    session = pytest.importorskip("botocore.session")
    converse = Context(BedrockConverse("anthropic.claude-sonnet-5-5", max_tokens=9, output=Invoice))
    converse.user("Go.")
    shape = session.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    fields = {**converse.request()}
    assert validate.ParamValidator().validate(fields, shape).generate_report() == ""
    written = fields["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert (written["name"], parse(written["schema"].encode())["required"]) == (
        "Invoice",
        ["number", "lines", "first", "state"],
    )
    gemini = Context(Gemini("gemini-3.8-flash", max_tokens=9, output=Invoice))
    gemini.user("Go.")
    config = types.GenerateContentConfig.model_validate(gemini.request()["config"])
    assert (config.response_mime_type, config.max_output_tokens) == (
        "application/json",
        9,
    ) and config.response_json_schema


def test_a_schema_by_hand_is_as_good_as_a_model(desk: Desk, wire: str) -> None:
    context = begun(
        desk, wire, output={"title": "Sum of it", "type": "object", "properties": {"n": {"type": "integer"}}}
    )
    request = desk.ask(context, says('{"n": 4}'))
    assert context.parsed() == {"n": 4} and faults(PARAMS[wire], parse(request.body)) == []
    assert wire == "anthropic" or "Sum_of_it" in str(request[PLACES[wire]])


def test_what_is_no_such_reply_says_so_without_repeating_it(desk: Desk, wire: str) -> None:
    context = begun(desk, wire, output=Plan)
    desk.ask(context, says('{"steps": "secret words"}'))
    with pytest.raises(UnreadableReply, match=r"no Plan: steps: list_type") as caught:
        context.parsed()
    assert "secret" not in str(caught.value) and caught.value.__cause__ is None
    context.user("Again.")
    desk.ask(context, says('{"steps": [', stop="truncated"))
    with pytest.raises(UnreadableReply, match="truncated"):
        context.parsed()


def test_without_a_form_there_is_nothing_to_read(desk: Desk, wire: str) -> None:
    context = begun(desk, wire)
    desk.ask(context, says('{"steps": []}'))
    with pytest.raises(UsageError, match="no form of reply"):
        context.parsed()
    assert context.parsed(Plan) == Plan(steps=[])


def test_what_stands_beside_it_stays_and_two_forms_are_refused() -> None:
    provider = OpenAIResponses("gpt-6.1-sol", text={"verbosity": "low"}, output=Plan)
    assert provider.params["text"]["verbosity"] == "low" and provider.params["text"]["format"]["name"] == "Plan"
    context = Context(provider)
    context.user("Go.")
    other = context.request(output=Invoice)["text"]
    assert (other["verbosity"], other["format"]["name"]) == ("low", "Invoice")
    assert context.request(output=None)["text"] == {"verbosity": "low"}
    with pytest.raises(UsageError, match="both say"):
        OpenAIResponses("gpt-6.1-sol", text={"format": {"type": "text"}}, output=Plan)


def test_on_a_self_hosted_engine_the_callers_form_stands_above_the_grammar_of_a_mask() -> None:
    provider = OpenAICompatible("Qwen/Qwen3-8B", host="vllm", call_format="qwen", max_tokens=9, output=Plan)
    assert provider.decoding is not None and provider.decoding.is_formed and provider.telling == "reminder"


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ({"type": "array", "items": {"type": "string"}}, "is an object"),
        (
            {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {}}}},
            r"output\.m: .* any keys",
        ),
        (
            {"type": "object", "properties": {"m": {"$ref": "#/$defs/No", "description": "m"}}},
            r"#/\$defs/No names nothing",
        ),
    ],
)
def test_what_has_no_strict_form_says_where(schema: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        OpenAIChat("gpt-6.1-sol", output=schema)


def test_what_is_no_form_is_refused() -> None:
    class Socket:
        """Nothing that JSON can say."""

    for wrong in ("Invoice", 3, lambda: None, Socket):
        with pytest.raises(UsageError, match="pydantic model"):
            OpenAIChat("gpt-6.1-sol", output=wrong)


# Another form on the way
# ----------------------------------------------------------------------------------------------------


def test_in_band_the_form_changes_behind_the_prompt_and_nothing_is_lost(responses: Desk) -> None:
    context = begun(responses, "responses", output=Plan)
    first = responses.ask(context, says('{"steps": ["read"]}'))
    context.user("Now the invoice.")
    context.notice(OutputChanged(Invoice))
    request = responses.ask(context, says(Invoice.model_validate(INVOICE).model_dump_json()))
    said = request["input"][-1]
    assert said["type"] == "configuration_update" and said["text"]["format"] == {
        "type": "json_schema",
        "name": "Invoice",
        "schema": strict(without_titles(Invoice.model_json_schema())),
        "strict": True,
    }
    assert request["text"] == first["text"] and faults(PARAMS["responses"], parse(request.body)) == []
    assert bill(context.ledger[-1].usage) == bill(request.predicted) and (request.predicted.read or 0) > 1_000
    assert context.parsed()["number"] == "7" and context.parsed(Invoice) == Invoice.model_validate(INVOICE)
    context.user("And in words?")
    context.notice(OutputChanged(None))
    request = responses.ask(context, says("Seven."))
    assert request["input"][-1] == {"type": "configuration_update", "text": {"format": {"type": "text"}}}
    with pytest.raises(UsageError, match="no form of reply"):
        context.parsed()
    honest(responses, context)


def test_the_same_form_is_not_told_twice_and_a_compaction_tells_it_again(responses: Desk) -> None:
    context = begun(responses, "responses", output=Plan)
    assert context.notice(OutputChanged(Invoice)) is context.notice(OutputChanged(Invoice))
    responses.ask(context, says("{}"))
    context.compact("What was said.")
    assert [entry.kind for entry in context.log[-2:]] == ["epoch", "notice"]
    context.user("Go on.")
    assert context.request()["input"][-1]["text"]["format"]["name"] == "Invoice"
    assert Context(PROVIDERS["responses"](output=Plan), log=context.log)._changes.output["name"] == "Invoice"


@pytest.mark.parametrize("made", ["chat", "anthropic"])
def test_where_it_cannot_be_told_the_price_is_said_and_nothing_is_kept(made: str, running: LocalServer) -> None:
    running.reset()
    desk = Desk(WIRES[made], running)
    context = begun(desk, made, output=Plan)
    desk.ask(context, says('{"steps": []}'))
    context.user("Now the invoice.")
    n, now = len(context.log), context.request().predicted
    with pytest.raises(UsageError, match=r"takes no other form of reply behind the prompt") as caught:
        context.notice(OutputChanged(Invoice))
    then = context.request(output=Invoice).predicted
    lost = (now.read or 0) - (then.read or 0)
    assert lost > 0 and f"{lost:,} tokens" in str(caught.value) and len(context.log) == n
    assert (then.read == 0) is (made == "chat")
    assert desk.ask(context, says("{}")).predicted == now


def test_a_watched_client_says_that_another_form_breaks_the_prefix_and_what_it_costs(desk: Desk, wire: str) -> None:
    context, found = begun(desk, wire, output=Plan), []
    context_reply = says('{"steps": []}')
    with desk.client() as client:
        watched = watch(client, on_break=found.append)
        desk.server.script([context_reply, context_reply, context_reply])
        for output in (Plan, Plan, Invoice):
            context.provider = PROVIDERS[wire](output=output)
            context.receive(desk.wire.create(watched)(**context.request()))
            context.user("And then?")
    [finding] = found
    assert finding.code == "CKP05" and PLACES[wire] in str(finding.place.path)
    assert (finding.cost_tokens or 0) > 0 and (finding.cost_usd or 0.0) > 0


def test_the_example_keeps_one_head(example: Callable[[str], str]) -> None:
    assert "1 head for 5 calls" in example("openai_features")
