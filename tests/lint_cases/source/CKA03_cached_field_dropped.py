"""Money computed from input tokens alone, and what only looks like it."""

import openai

gpt = openai.OpenAI()
INPUT_PRICE, OUTPUT_PRICE = 1.25, 10.0
PRICES = {"gpt-5": {"input": 1.25, "output": 10.0}}


def price_of(response, per_input, per_output):
    used = response.usage
    return used.input_tokens * per_input + used.output_tokens * per_output  # expect: CKA03


def cost_of(usage):
    return usage.prompt_tokens / 1_000_000 * INPUT_PRICE + usage.completion_tokens / 1_000_000 * OUTPUT_PRICE  # expect: CKA03


def cost_by_model(model, usage):
    prompt_tokens = usage["prompt_tokens"]
    return prompt_tokens * PRICES[model]["input"] / 1e6 + usage["completion_tokens"] * PRICES[model]["output"] / 1e6  # expect: CKA03


class Meter:
    def __init__(self):
        self.usd = 0.0

    def add(self, response, rate):
        tokens = getattr(response.usage, "input_tokens", 0)
        self.usd += tokens * rate["input_cost_per_token"]  # expect: CKA03


def estimate(prompt_tokens, completion_tokens, model="gpt-5"):
    cost = (prompt_tokens / 1000) * PRICES[model]["input"]
    cost += (completion_tokens / 1000) * PRICES[model]["output"]
    return cost


def estimate_by_characters(text):
    return estimate(len(text) // 4, 100)


def priced(n_input, n_output):
    return n_input * INPUT_PRICE + n_output * OUTPUT_PRICE  # expect: CKA03


def show_price(reply):
    print(priced(reply.usage.input_tokens, reply.usage.output_tokens))


async def ask_and_price(messages):
    reply = await gpt.chat.completions.create(model="gpt-5", messages=messages)
    return reply, float(reply.usage.prompt_tokens) * INPUT_PRICE  # expect: CKA03


def copied(response):
    usage = response.usage
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}


def share_of_output(usage):
    return usage.completion_tokens / (usage.prompt_tokens + usage.completion_tokens)


def is_too_long(response, limit):
    return response.usage.prompt_tokens + response.usage.completion_tokens > limit * 4


def output_cost(usage):
    return usage.completion_tokens * OUTPUT_PRICE


def embedding_cost(usage):
    return usage.prompt_tokens * INPUT_PRICE


def shown(usage, log):
    log.info("cost of %s input and %s output tokens", usage.prompt_tokens, usage.completion_tokens)


def padded(prompt_tokens):
    return prompt_tokens * 2


async def report(meter, messages, log):
    reply, cost = await ask_and_price(messages)
    usage = reply.usage
    meter.add(reply, PRICES["gpt-5"])
    show_price(reply)
    shown(usage, log)
    log.info("%s %s", price_of(reply, 1.25, 10.0), cost + cost_of(usage) + cost_by_model("gpt-5", usage))
    log.info("%s %s %s", output_cost(usage), embedding_cost(usage), estimate_by_characters(str(messages)))
    return copied(reply), share_of_output(usage), is_too_long(reply, 100), padded(usage.prompt_tokens)


async def run(meter, conversations, log):
    return [await report(meter, messages, log) for messages in conversations]
