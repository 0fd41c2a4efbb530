"""A usage copied by two of its fields."""

from langchain_core.outputs import LLMResult


def as_dict(reply):
    return {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}  # expect: CKA03


def as_record(response, record):
    usage = response.usage
    return record.TokenUsage(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)  # expect: CKA03


def asked_for(response):
    usage = getattr(response, "usage", None)
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens} if usage else None  # expect: CKA03


def with_reads(reply):
    usage = reply.usage
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "read": getattr(usage, "cache_read_input_tokens", None),
    }


def with_raw(reply):
    usage = reply.usage
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "raw": usage}


def of_settings(limits):
    return {"input_tokens": limits.input_tokens, "output_tokens": limits.output_tokens}


def of_our_own(response):
    return {"prompt_tokens": response.usage.prompt_tokens, "completion_tokens": response.usage.completion_tokens, "cost": response.cost}


def of_a_stream(response):
    counted = []
    try:
        counted.append({"prompt_tokens": response.usage.prompt_tokens, "completion_tokens": response.usage.completion_tokens})  # expect: CKA03
    except AttributeError:
        for chunk in response:
            counted.append({"prompt_tokens": chunk.usage.prompt_tokens, "completion_tokens": chunk.usage.completion_tokens})  # expect: CKA03
    return counted


def through_variables(response):
    usage = response.usage
    read, written = usage.prompt_tokens, usage.completion_tokens
    prompt_tokens = int(usage.prompt_tokens or 0)
    completion_tokens = int(usage.completion_tokens or 0)
    print(read, written)
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}  # expect: CKA03


def one_by_one(response, metrics):
    usage = response.usage
    metrics.input_tokens = usage.prompt_tokens or 0  # expect: CKA03
    metrics.output_tokens = usage.completion_tokens or 0
    return metrics


def of_google(response):
    usage = response.usage_metadata
    return {"prompt_tokens": usage.prompt_token_count, "completion_tokens": usage.candidates_token_count}  # expect: CKA03


def one_by_one_with_reads(response, metrics):
    usage = response.usage
    metrics.input_tokens = usage.prompt_tokens
    metrics.output_tokens = usage.completion_tokens
    metrics.cached_tokens = usage.prompt_tokens_details.cached_tokens


def to_a_span(response, span_attributes):
    usage = response.usage
    span_attributes["input"] = usage.prompt_tokens
    span_attributes["output"] = usage.completion_tokens


def of_bedrock(response):  # where nothing is marked, nothing is cached
    usage = response["usage"]
    return {"input_tokens": usage["inputTokens"], "output_tokens": usage["outputTokens"]}


def kept_whole(response, answer):
    answer.usage = response.usage
    answer.input_tokens = response.usage.prompt_tokens
    answer.output_tokens = response.usage.completion_tokens


def on_llm_end(response: LLMResult):
    usage = response.usage
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}


def asked_with_a_key(client, messages, key, record):
    r = client.chat.completions.create(model="gpt-4o", messages=messages, prompt_cache_key=key)
    return record.Usage(prompt_tokens=r.usage.prompt_tokens, completion_tokens=r.usage.completion_tokens)  # expect: CKA03


class Tracker:
    def track(self, response):
        self.input_tokens += response.usage.input_tokens  # expect: CKA03
        self.output_tokens += response.usage.output_tokens

    def track_all(self, response):
        self.input_tokens += response.usage.input_tokens
        self.output_tokens += response.usage.output_tokens
        self.cached_tokens += response.usage.input_tokens_details.cached_tokens


def counts_of(usage):
    return (usage.prompt_tokens or 0), (usage.completion_tokens or 0)  # expect: CKA03


def one_variable_more(response, record):
    counted = counts_of(response.usage)
    return record.Usage(*counted)


def price_of(response, per_input, per_output):
    used = response.usage
    return used.input_tokens * per_input + used.output_tokens * per_output  # expect: CKA03


async def of_an_async_stream(client, messages, totals):
    last = None
    async for chunk in await client.chat.completions.create(model="m", messages=messages, stream=True):
        if chunk.usage:
            last = chunk.usage
    totals["input"] += last.prompt_tokens  # expect: CKA03
    totals["output"] += last.completion_tokens


def field(usage, name):
    return usage.get(name, 0) if isinstance(usage, dict) else getattr(usage, name, 0)


def through_a_helper(response):
    usage = response.usage
    return {"in": field(usage, "prompt_tokens"), "out": field(usage, "completion_tokens")}  # expect: CKA03


def part_of(usage):
    return {"in": usage.prompt_tokens, "out": usage.completion_tokens}


def kept_by_the_caller(response):
    return {**part_of(response.usage), "hit": response.usage.prompt_tokens_details.cached_tokens}


def only_logged(response, logger):
    logger.info("tokens", extra={"in": response.usage.prompt_tokens, "out": response.usage.completion_tokens})


def is_too_long(response, limit):
    return response.usage.prompt_tokens + response.usage.completion_tokens > limit


def with_the_answer(response, record):
    usage = response.usage
    return record.Answer(input=usage.prompt_tokens, output=usage.completion_tokens, raw_response=response)
