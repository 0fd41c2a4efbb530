"""Usages whose cached counters are lost, counted twice, or summed over repeated lines: small programs, and files of cases."""

from __future__ import annotations

import textwrap
from pathlib import Path

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.source.detect import find_in_code

HAZARDS = [Hazard(code, code.lower(), "A", "note") for code in ("CKA01", "CKA02", "CKA03")]


def found(folder: Path) -> list[Finding]:
    return [one for one in find_in_code([folder], LintConfig(), HAZARDS) if one.code != "CK000"]


def lines_of(folder: Path, **sources: str) -> list[tuple[str, int]]:
    """Code and line of what is found in modules of these texts."""
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return [(one.code, one.place.line) for one in found(folder) if isinstance(one.place, CodePlace)]


def test_usage_given_to_a_function_of_another_module_that_keeps_the_cached_counters(tmp_path: Path) -> None:
    reader = "def hits(usage):\n    return usage.prompt_tokens_details.cached_tokens\n"
    writer = """
        from reader import hits

        def record(response, store):
            usage = response.usage
            store(hits(usage))
            return {"in": usage.prompt_tokens, "out": usage.completion_tokens}
        """
    assert lines_of(tmp_path, reader=reader, writer=writer) == []
    assert lines_of(tmp_path, reader="def hits(usage):\n    return usage.total_tokens\n") == [("CKA03", 7)]


def test_usage_that_a_method_is_given_is_that_of_the_answer(tmp_path: Path) -> None:
    text = """
        class Model:
            async def ask(self, client, messages):
                response = await client.chat.completions.create(model="m", messages=messages)
                return self.metrics(response.usage)

            def metrics(self, counted):
                metrics = Metrics()
                metrics.input_tokens = counted.prompt_tokens
                metrics.output_tokens = counted.completion_tokens
                return metrics
        """
    assert lines_of(tmp_path, model=text) == [("CKA03", 9)]


OWN = """
    from dataclasses import dataclass

    @dataclass
    class Usage:
        prompt_tokens: int
        completion_tokens: int
        {more}

    @dataclass
    class Answer:
        usage: Usage

    def told(answer: Answer):
        return {{"prompt_tokens": answer.usage.prompt_tokens, "completion_tokens": answer.usage.completion_tokens}}
    """


def test_usage_of_a_class_of_the_program_is_told_in_full_where_it_has_no_cached_counters(tmp_path: Path) -> None:
    assert lines_of(tmp_path, own=OWN.format(more="")) == []
    assert lines_of(tmp_path, own=OWN.format(more="cached_tokens: int")) == [("CKA03", 15)]


MARKED = """
    import anthropic

    def ask(messages):
        response = anthropic.Anthropic().messages.create(model="m", max_tokens=9, system={system}, messages=messages)
        return {{"in": response.usage.input_tokens, "out": response.usage.output_tokens}}
    """


def test_service_that_caches_what_is_marked_has_cached_counters_where_something_is_marked(tmp_path: Path) -> None:
    assert lines_of(tmp_path, plain=MARKED.format(system='"Be kind."')) == []
    marked = MARKED.format(system='[{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]')
    assert lines_of(tmp_path, plain=marked) == [("CKA03", 6)]


def test_embeddings_have_no_cached_tokens(tmp_path: Path) -> None:
    text = """
        def embed(client, texts):
            response = client.embeddings.create(model="m", input=texts)
            return {"in": response.usage.prompt_tokens, "out": response.usage.completion_tokens}
        """
    assert lines_of(tmp_path, embed=text) == []


def test_trail_goes_from_the_usage_to_where_it_is_written(tmp_path: Path) -> None:
    text = """
        def ask(response, record):
            usage = response.usage
            read = usage.prompt_tokens
            return record.Usage(
                input=read, output=usage.completion_tokens)
        """
    (tmp_path / "one.py").write_text(textwrap.dedent(text), encoding="utf-8")
    (finding,) = found(tmp_path)
    assert [step.line for step in finding.trail] == [3, 4, 5]
    assert finding.message.startswith(
        "`prompt_tokens` and `completion_tokens` of `response.usage` are written to `Usage(…)`"
    )


def test_sum_over_lines_is_right_where_a_caller_looks_at_the_ids(tmp_path: Path) -> None:
    summing = 'def total(lines):\n    return sum(line["message"]["usage"]["output_tokens"] for line in lines)\n'
    summing += 'FOLDER = "~/.claude"\n'
    assert lines_of(tmp_path, summing=summing) == [("CKA02", 2)]
    once = """
        from summing import total

        def of_file(lines):
            return total({line["requestId"]: line for line in lines}.values())
        """
    assert lines_of(tmp_path, once=once) == []
