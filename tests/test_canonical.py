"""The byte form of a value: against RFC 8785's own vectors, the standard library's reader and writer, and generated
JSON."""

from __future__ import annotations

import enum
import json
import math
import struct
import uuid
from collections import OrderedDict
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contextkit.canonical import MAX_DEPTH, canonical, parse
from contextkit.errors import NotSerialisable

_TEXT = st.text(max_size=20)
_NUMBERS = st.integers(-(2**200), 2**200) | st.floats(allow_nan=False, allow_infinity=False)
_LEAVES = st.none() | st.booleans() | _NUMBERS | _TEXT
JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXT, inner, max_size=5), max_leaves=25
)
WITHOUT_FLOATS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | _TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXT, inner, max_size=5),
    max_leaves=25,
)


def nested(depth: int, leaf: Any = 1) -> Any:
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


def utf16_sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: utf16_sorted(value[key]) for key in sorted(value, key=lambda key: key.encode("utf-16-be"))}
    return [utf16_sorted(item) for item in value] if isinstance(value, list) else value


# RFC 8785
# -----------------------------------------------------------------------------------------------------------------

NUMBERS_OF_APPENDIX_B = [
    # IEEE 754 bits, RFC 8785's text, ours: a float stays a float, and the exponent begins where Python's repr begins it
    ("0000000000000000", "0", "0.0"),
    ("8000000000000000", "0", "-0.0"),
    ("0000000000000001", "5e-324", "5e-324"),
    ("8000000000000001", "-5e-324", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992", "9007199254740992.0"),
    ("c340000000000000", "-9007199254740992", "-9007199254740992.0"),
    ("4430000000000000", "295147905179352830000", "2.9514790517935283e+20"),
    ("44b52d02c7e14af5", "9.999999999999997e+22", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000", "9.999999999999997e+20"),
    ("444b1ae4d6e2ef4f", "999999999999999900000", "9.999999999999999e+20"),
    ("444b1ae4d6e2ef50", "1e+21", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001", "1e-6"),
    ("41b3de4355555553", "333333333.3333332", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333", "-3.3333333333333333e-6"),
    ("43143ff3c1cb0959", "1424953923781206.2", "1424953923781206.2"),
]


def test_a_float_has_the_digits_of_rfc_8785_and_reads_back_to_its_bits() -> None:
    for bits, rfc, ours in NUMBERS_OF_APPENDIX_B:
        number = struct.unpack(">d", bytes.fromhex(bits))[0]
        assert canonical(number) == ours.encode()
        assert struct.pack(">d", parse(ours)).hex() == bits
        assert float(ours) == float(rfc) == number


def test_the_numbers_rfc_8785_refuses_are_refused() -> None:
    for bits in ("7fffffffffffffff", "7ff0000000000000", "fff0000000000000"):
        with pytest.raises(NotSerialisable, match=r"at \$$"):
            canonical(struct.unpack(">d", bytes.fromhex(bits))[0])


def test_sorted_keys_follow_the_example_of_rfc_8785_section_3_2_3() -> None:
    names = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    assert list(parse(canonical(names, sort=True)).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


def test_the_whole_example_of_rfc_8785_section_3_2_4_comes_out_byte_for_byte() -> None:
    given_text = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    expected = (
        r'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + "'" + r'B\"\\\\\"/"}'
    )
    assert canonical(parse(given_text), sort=True) == expected.encode()


# Round trips
# --------------------------------------------------------------------------------------------------------------


def is_same(left: Any, right: Any) -> bool:
    """Equal in value, type and order of keys, which `==` does not ask."""
    return repr(left) == repr(right)


@given(JSON)
@example(-0.0)
@example([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**308 - 1, 2.0**63, 2.0**64, 1e22])
@example({"": {"\x00": "\u2028\x7f/"}, "1234567890123456789012": "1234567890123456789012"})
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    written = canonical(value)
    assert is_same(parse(written), value)
    assert is_same(parse(written.decode()), value)
    assert canonical(parse(written)) == written


@given(JSON)
def test_the_standard_library_reads_what_we_write(value: Any) -> None:
    assert is_same(json.loads(canonical(value)), value)


@given(WITHOUT_FLOATS)
def test_apart_from_floats_the_bytes_are_those_of_the_compact_standard_writer(value: Any) -> None:
    assert canonical(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@given(JSON)
@example({"\ufb33": 1, "\U0001f600": {"\uffff": 2, "\U00010000": [3]}, "a": None})
def test_sorting_is_by_utf_16_code_unit_at_every_level_and_leaves_values_alone(value: Any) -> None:
    assert canonical(value, sort=True) == canonical(utf16_sorted(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_shorter_text_of_a_float_reads_back_to_it(number: float) -> None:
    digits = canonical(number).decode().partition("e")[0].replace(".", "").strip("-0")
    assert float(f"{number:.{max(len(digits) - 2, 0)}e}") != number or len(digits) <= 1


@given(st.integers(1, 2**200))
def test_an_integer_and_the_float_beside_it_stay_two_values(number: int) -> None:
    assert canonical(number) != canonical(float(number))
    assert type(parse(canonical(number))) is int and type(parse(canonical(float(number)))) is float


# Refusals
# -----------------------------------------------------------------------------------------------------------------


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.StrEnum):
    RED = "red"


class Label(str):
    """A subclass whose JSON form only its author knows."""


REFUSED: list[tuple[Any, str, str]] = [
    # value, path, a word of the text
    ({"a": [{"b": math.nan}]}, "$.a[0].b", "nan"),
    ([0, -math.inf], "$[1]", "inf"),
    ({"a": {1, 2}}, "$.a", "set"),
    ({"a": b"raw"}, "$.a", "bytes"),
    ({"a": ({"b": bytearray(b"raw")},)}, "$.a[0].b", "bytearray"),
    ({"a": {1: "one"}}, "$.a", "key of type int"),
    ({"a": {None: "none"}}, "$.a", "key of type NoneType"),
    ({"a": {Label("k"): 1}}, "$.a", "key of type Label"),
    ({Colour.RED: 1}, "$", "key of type Colour"),
    (["fine", "\ud800"], "$[1]", "surrogate"),
    ({"a": {"\udfff": 1}}, r'$.a["\udfff"]', "surrogate"),
    ({"with a space": {"a.b": math.nan}}, '$["with a space"]["a.b"]', "nan"),
    ({"größe": object()}, "$.größe", "object"),
    ([Level.LOW], "$[0]", "Level"),
    ([Colour.RED], "$[0]", "Colour"),
    ([Label("x")], "$[0]", "Label"),
    ({"a": OrderedDict(b=1)}, "$.a", "OrderedDict"),
    ([uuid.UUID(int=1)], "$[0]", "UUID"),
    ([orjson.Fragment(b"not json")], "$[0]", "Fragment"),
    ({"long": [2**70], "bad": math.nan}, "$.bad", "nan"),
    ([10**308], "$[0]", "308 digits"),
    ([-(10**5000)], "$[0]", "308 digits"),
]


@pytest.mark.parametrize("sort", [False, True])
def test_what_has_no_single_json_form_is_refused_with_its_path(sort: bool) -> None:
    for value, path, word in REFUSED:
        with pytest.raises(NotSerialisable) as caught:
            canonical(value, sort=sort)
        assert caught.value.path == path
        assert str(caught.value).endswith(f"at {path}")
        assert word in str(caught.value)


@pytest.mark.parametrize("leaf", [1, 2**70, 1e300], ids=["small", "long", "exponent"])
def test_nesting_is_written_to_its_limit(leaf: Any) -> None:
    assert canonical(nested(MAX_DEPTH, leaf)) == b"[" * MAX_DEPTH + canonical(leaf) + b"]" * MAX_DEPTH


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 10_000])
def test_deeper_nesting_is_refused_and_does_not_exhaust_the_stack(depth: int) -> None:
    with pytest.raises(NotSerialisable, match="nested deeper than 1024") as caught:
        canonical(nested(depth))
    assert caught.value.path.startswith("$[0][0]") and len(str(caught.value)) < 250


def test_a_circle_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = [circle, circle]
    with pytest.raises(NotSerialisable, match="circle"):
        canonical(circle)


# Reading
# ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *(b"NaN", b"Infinity", b"-Infinity", b"[1,NaN]", b"1e999", b"-1e999", b"9" * 400),
        *(b"", b" ", b'{"a":1', b"[1,", b'"torn', b"tru", b'{"a"', b"[1] [2]", b'{"a":1}\n{"a":2}'),
        *(rb'"\ud800"', rb'["\udc00"]', rb'{"\ud800x":1}', rb'"\ud800\u0041"'),
        *(b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b"\xef\xbb\xbf[]"),
        *(b"[01]", b"[1.]", b"[.5]", b"[+1]", b"[1,]", b"{a:1}", b"{'a':1}", b'"\n"', b"[0x10]", b"// c\n1"),
        b"[" * 10_000 + b"]" * 10_000,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_not_json_is_refused_with_its_place(text: bytes) -> None:
    with pytest.raises(NotSerialisable, match=r"not JSON .* at line \d+ column \d+"):
        parse(text)


def test_a_torn_text_of_several_lines_names_the_line() -> None:
    with pytest.raises(NotSerialisable) as caught:
        parse(b'{\n "a": 1,\n "b": nul\n}')
    assert caught.value.path.startswith("line 3 ")


def test_an_escaped_pair_of_surrogates_is_one_character() -> None:
    assert canonical(parse(rb'"\ud83d\ude00"')) == '"\U0001f600"'.encode()


def test_of_a_key_that_stands_twice_the_last_value_counts_in_the_first_place() -> None:
    assert canonical(parse(b'{"a":1,"b":2,"a":3}')) == b'{"a":3,"b":2}'
    assert canonical(parse(b'{"a":1,"b":2,"a":36893488147419103232}')) == b'{"a":36893488147419103232,"b":2}'


@given(st.binary(max_size=40) | st.text(alphabet='[]{},:"\\0123456789eE+-. \ntrufalsn', max_size=40).map(str.encode))
def test_any_bytes_are_read_as_the_strict_standard_reader_reads_them_or_refused(raw: bytes) -> None:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        expected = json.loads(raw.decode("utf-8"), parse_constant=refuse)
        canonical(expected)
    except (ValueError, NotSerialisable):
        with pytest.raises(NotSerialisable):
            canonical(parse(raw))
    else:
        assert is_same(parse(raw), expected)


def test_a_long_integer_nested_too_deep_is_read_or_refused_but_never_exhausts_the_stack() -> None:
    text = b"[" * MAX_DEPTH + b"9" * 40 + b"]" * MAX_DEPTH
    try:
        written = canonical(parse(text))
    except NotSerialisable as error:  # where the standard reader's stack ends differs between Python releases
        written = str(error).encode()
    assert written == text or b"nested too deep" in written
