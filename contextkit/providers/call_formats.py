"""How families of open-weight models write a tool call (`FORMATS`), and the prefills, regular expressions, grammars and
structural tags that are made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from json import JSONDecoder
from os.path import commonprefix

from contextkit.canonical import Json, canonical
from contextkit.errors import UsageError
from contextkit.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How one family of models writes a call: begin, name, middle, arguments, end."""

    name: str
    """As engines name the parser."""
    begin: str
    """What stands before the name."""
    middle: str
    """What stands between the name and the arguments."""
    end: str
    """What stands behind the arguments."""
    trigger: str
    """The beginning of `begin` that only a call has."""
    style: str
    """How the arguments are written: `json`, one object; `qwen_xml`, one element an argument. XGrammar's names."""
    source: str
    """Where it is documented."""
    thinks: bool = False
    """Whether some of its models think before they answer, unless the template's `enable_thinking` is false."""

    def call(self, name: str, arguments: Json) -> str:
        """A whole call, as the model would write it.

        >>> FORMATS["mistral"].call("search", {"q": "gpu"})
        '[TOOL_CALLS]search[ARGS]{"q":"gpu"}'
        """
        written = canonical(arguments).decode()
        if self.style == "qwen_xml":  # text as it stands, everything else as JSON
            texts = ((key, one if isinstance(one, str) else canonical(one).decode()) for key, one in arguments.items())
            written = "\n".join(f"<parameter={key}>\n{text}\n</parameter>" for key, text in texts)
        return f"{self.begin}{name}{self.middle}{written}{self.end}"

    def read(self, text: str) -> tuple[str, str, str] | None:
        """Name, arguments as written, and what stands behind the call that a text begins with; arguments are JSON.

        Of a call that is cut its arguments are all that there is. None where the name has no end.

        >>> FORMATS["hermes"].read('<tool_call>\\n{"name": "a", "arguments": {"n": 1}}\\n</tool_call> Done.')
        ('a', '{"n": 1}', ' Done.')
        """
        begun = re.match(f"{re.escape(self.begin)}([^\n]+?){_spaced(self.middle)}", text)
        if begun is None:
            return None
        try:
            _, end = JSONDecoder().raw_decode(text, begun.end())
        except ValueError:
            return begun[1], text[begun.end() :], ""
        rest = text[end:]
        ended = re.match(rf"\s*{_spaced(self.end)}", rest) if self.end else None
        rest = rest[ended.end() :] if ended else rest
        return begun[1], text[begun.end() : end], "" if self.end.startswith(rest.strip()) else rest

    def split(self, text: str) -> tuple[str, list[tuple[str, str]]]:
        """A reply as written, as its words and its calls (name, arguments as written); arguments are JSON.

        >>> FORMATS["mistral"].split('Well. [TOOL_CALLS]a[ARGS]{"n": 1}[TOOL_CALLS]b[ARGS]{}')
        ('Well. ', [('a', '{"n": 1}'), ('b', '{}')])
        """
        words, mark, rest = text.partition(self.trigger)
        rest = mark + rest
        calls: list[tuple[str, str]] = []
        while (found := self.read(rest.lstrip() if calls else rest)) is not None:
            calls.append((found[0], found[1]))
            rest = found[2]
        return words + rest, calls


_HERMES = ('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>", "<tool_call>", "json")


FORMATS: Mapping[str, CallFormat] = {
    row.name: row
    for row in (
        CallFormat(
            "hermes", *_HERMES, "vLLM examples/tool_chat_template_hermes.jinja, tool_parsers/hermes_tool_parser.py"
        ),
        CallFormat(
            "qwen",
            *_HERMES,
            "chat template of Qwen/Qwen2.5-7B-Instruct and Qwen/Qwen3-8B, which write calls as Hermes does",
            thinks=True,
        ),
        CallFormat(
            "qwen3_coder",
            "<tool_call>\n<function=",
            ">\n",
            "\n</function>\n</tool_call>",
            "<tool_call>",
            "qwen_xml",
            "chat template of Qwen/Qwen3-Coder-30B-A3B-Instruct; vLLM tool_parsers/qwen3coder_tool_parser.py",
        ),
        CallFormat(
            "llama3_json",
            '{"name": "',
            '", "parameters": ',
            "}",
            '{"name": "',
            "json",
            "vLLM examples/tool_chat_template_llama3.1_json.jinja, tool_parsers/llama_tool_parser.py",
        ),
        CallFormat(
            "mistral",
            "[TOOL_CALLS]",
            "[ARGS]",
            "",
            "[TOOL_CALLS]",
            "json",
            "https://docs.vllm.ai/en/latest/api/vllm/tool_parsers/mistral_tool_parser/ (tokenizers from v11 on)",
        ),
        CallFormat(
            "mistral_json",
            '[TOOL_CALLS][{"name": "',
            '", "arguments": ',
            "}]",
            "[TOOL_CALLS]",
            "json",
            "vLLM examples/tool_chat_template_mistral.jinja (tokenizers before v11)",
        ),
    )
}
"""Name of a parser → how its models write a call."""


def format_named(name: str) -> CallFormat:
    """The row of that name. Raises `UsageError` where there is none."""
    if name not in tuple(FORMATS):
        raise UsageError(
            f"no call format {name!r}: use one of {', '.join(FORMATS)}, as the engine's --tool-call-parser names it"
        )
    return FORMATS[name]


def prefill(form: CallFormat, names: Iterable[str]) -> str:
    """The beginning of a call that every one of `names` shares: what the model goes on from can only be one of their
    family.

    >>> prefill(FORMATS["qwen"], ["browser_open", "browser_close"])
    '<tool_call>\\n{"name": "browser_'
    """
    return form.begin + commonprefix(_some(names))  # noqa: RUF071 - characters are what is compared


def name_regex(form: CallFormat, names: Iterable[str]) -> str:
    """A regular expression of whole replies that are a call of one of `names`; the arguments are any text.

    >>> name_regex(FORMATS["mistral"], ["a", "b"])
    '\\\\[TOOL_CALLS\\\\](a|b)\\\\[ARGS\\\\][\\\\s\\\\S]*'
    """
    return f"{_escaped(form.begin)}({'|'.join(map(_escaped, _some(names)))}){_escaped(form.middle)}[\\s\\S]*"


def name_ebnf(form: CallFormat, names: Iterable[str]) -> str:
    """The same as an EBNF grammar, as XGrammar and llama.cpp read it.

    >>> print(name_ebnf(FORMATS["llama3_json"], ["a", "b"]))
    root ::= "{\\"name\\": \\"" name "\\", \\"parameters\\": " rest
    name ::= "a" | "b"
    rest ::= [^\\x00]*
    """
    root = " ".join([*_literal(form.begin), "name", *_literal(form.middle), "rest"])
    return f"root ::= {root}\nname ::= {' | '.join(part for name in _some(names) for part in _literal(name))}\nrest ::= [^\\x00]*"


_OBJECT = r"""
object ::= "{" blank ( member ( "," blank member )* )? "}"
member ::= string blank ":" blank value blank
value ::= object | "[" blank ( value blank ( "," blank value blank )* )? "]" | string | number | "true" | "false" | "null"
string ::= "\"" ( [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""
number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,3} )?
blank ::= " "? | "\n" [ \t]{0,20}"""
"""A JSON object in llama.cpp's notation; blanks are bounded, as a small model may write nothing else."""


def call_grammar(form: CallFormat, names: Iterable[str], *, require: bool) -> str:
    """Replies in which every call is one of `names`, its arguments any JSON object, as a grammar of llama.cpp.

    `require`: that begin with a call; otherwise words may stand before the calls.
    """
    begin, middle, end = (" ".join(_literal(part)) for part in (form.begin, form.middle, form.end))
    calls = "call ( blank call )*"
    root = calls if require else f"words ( {calls} )?"
    name = " | ".join(part for given in _some(names) for part in _literal(given))
    rules = [f"root ::= {root}", f"call ::= {begin} name {middle} object {end}".rstrip(), f"name ::= {name}"]
    return "\n".join([*rules, *([] if require else _words(form.trigger))]) + _OBJECT


def words_grammar(form: CallFormat) -> str:
    """Replies in which no call can begin, as a grammar of llama.cpp.

    >>> print(words_grammar(FORMATS["mistral"]).splitlines()[1])
    words ::= ( [ACLOST\\x5D\\x5F] words | [\\x5B] words1 | [^\\x00ACLOST\\x5B\\x5D\\x5F] words )?
    """
    return "\n".join(["root ::= words", *_words(form.trigger)])


def _words(trigger: str) -> list[str]:
    """Rules of any text without `trigger`: `words3` stands behind a text that ends with its first three characters."""
    rules = []
    for n in range(len(trigger)):
        follow: dict[int, list[str]] = {}
        for letter in sorted({*trigger}):
            text = trigger[:n] + letter
            longest = next(length for length in range(len(text), -1, -1) if text.endswith(trigger[:length]))
            follow.setdefault(longest, []).append(letter)
        follow.pop(len(trigger), None)
        others = f"[^\\x00{''.join(_in_class(letter) for letter in sorted({*trigger}))}]"
        ways = [
            f"[{''.join(map(_in_class, letters))}] {_words_rule(length)}" for length, letters in sorted(follow.items())
        ]
        rules.append(f"{_words_rule(n)} ::= ( {' | '.join([*ways, f'{others} words'])} )?")
    return rules


def _words_rule(n: int) -> str:
    return f"words{n}" if n else "words"


def _in_class(letter: str) -> str:
    return letter if letter.isalnum() else f"\\x{ord(letter):02X}"


def structural_tag(form: CallFormat, tools: Sequence[Tool], *, require: bool) -> Json:
    """Replies in which every call is one of `tools`, its arguments as their schemas say.

    `require`: that begin with a call.

    One rule a tool: once the model has begun a call, only these names can follow (XGrammar's structural tags, which
    vLLM and SGLang take).
    """
    tags = []
    for tool in tools:
        schema = tool.parameters or {"type": "object"}
        arguments = {"type": "json_schema", "json_schema": schema, "style": form.style}
        begin = f"{form.begin}{tool.name}{form.middle}"
        tags.append({"type": "tag", "begin": begin, "content": arguments, "end": form.end})
    inside = {
        "type": "triggered_tags",
        "triggers": [form.trigger],
        "tags": tags,
        "at_least_one": require,
        "stop_after_first": False,
    }
    return {"type": "structural_tag", "format": inside}


def words_only(form: CallFormat) -> Json:
    """Replies in which no call can begin, as a structural tag.

    >>> words_only(FORMATS["hermes"])["format"]
    {'type': 'any_text', 'excludes': ['<tool_call>']}
    """
    return {"type": "structural_tag", "format": {"type": "any_text", "excludes": [form.trigger]}}


def _some(names: Iterable[str]) -> list[str]:
    given = list(names)
    if not given:
        raise UsageError("a grammar of calls needs a name: where no tool may be called, send tool_choice none")
    return given


def _spaced(text: str) -> str:
    """An expression of a text with any blanks where it has some: models write JSON with and without."""
    return r"\s*".join(map(re.escape, re.split(r"\s+", text)))


def _escaped(text: str) -> str:
    """`re.escape` without what grammar compilers do not know: a line break stays `\\n`, and blanks and quotes stay
    themselves.
    """
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text).replace("\n", "\\n")


def _literal(text: str) -> list[str]:
    return [canonical(text).decode()] if text else []
