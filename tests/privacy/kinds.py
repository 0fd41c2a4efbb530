"""Forty kinds of secrets, made up when a test runs: the repository itself holds none that a scanner could find."""

from __future__ import annotations

import base64
import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URL = ALNUM + "-_"


def _drawn(rng: random.Random, letters: str, n: int) -> str:
    """`n` letters with a digit, an upper and a lower case one where the alphabet has them: what a generator of keys
    would draw."""
    text = [rng.choice(letters) for _ in range(n)]
    text[0] = rng.choice([letter for letter in letters if letter.isalpha()] or letters)
    wanted = [[one for one in letters if is_it(one)] for is_it in (str.isdigit, str.isupper, str.islower)]
    for place, choices in enumerate(wanted, 1):
        if choices and place < n:
            text[place] = rng.choice(choices)
    return "".join(text)


_ALPHABETS = {
    "A": ALNUM,
    "B": ALNUM + "+/",
    "D": string.digits,
    "L": string.ascii_lowercase + string.digits,
    "P": ALNUM + "!%^*~",
    "T": string.ascii_uppercase + "234567",
    "U": string.ascii_uppercase + string.digits,
    "W": URL,
    "X": HEX,
}
_DRAWN = re.compile("<([ABDLPTUWX])([0-9]+)>")


def written(template: str, seed: int = 7) -> tuple[str, list[str]]:
    """An example of `facts/redact.toml` with random text in place of `<A40>`, and those texts."""
    rng, values = random.Random(seed), list[str]()

    def draw(match: re.Match[str]) -> str:
        values.append(_drawn(rng, _ALPHABETS[match[1]], int(match[2])))
        return values[-1]

    return _DRAWN.sub(draw, template).replace("<>", ""), values


@dataclass(frozen=True)
class Kind:
    """One kind: the secret, and the words it stands in where it is known by them."""

    name: str
    value: str
    """The part that must not be found anywhere."""
    written: str
    """As it is written, the value in it."""


def _made(seed: int) -> list[Kind]:
    rng = random.Random(seed)
    draw = lambda letters, n: _drawn(rng, letters, n)  # noqa: E731
    found: list[Kind] = []

    def add(name: str, before: str, value: str, after: str = "") -> None:
        found.append(Kind(name, value, before + value + after))

    add("anthropic", "sk-" + "ant-api03-", draw(URL, 40))
    add("openai", "sk-" + "proj-", draw(URL, 48))
    add("openrouter", "sk-" + "or-v1-", draw(HEX, 64))
    add("aws access key", "AKI" + "A", draw(string.ascii_uppercase + string.digits, 16))
    add("aws session key", "ASI" + "A", draw(string.ascii_uppercase + string.digits, 16))
    add("aws secret key", "aws_secret_access_key=", draw(ALNUM + "/+", 40))
    add("github classic", "gh" + "p_", draw(ALNUM, 36))
    add("github fine-grained", "github_" + "pat_", draw(ALNUM + "_", 60))
    add("gitlab", "glp" + "at-", draw(URL, 20))
    add("slack", "xox" + "b-", draw(string.digits, 12) + "-" + draw(ALNUM, 24))
    add("google api key", "AI" + "za", draw(URL, 35))
    add("google oauth", "ya" + "29.", draw(URL, 60))
    add("hugging face", "h" + "f_", draw(ALNUM, 34))
    add("groq", "gs" + "k_", draw(ALNUM, 52))
    add("xai", "xa" + "i-", draw(ALNUM, 60))
    add("stripe live", "sk_" + "live_", draw(ALNUM, 24))
    add("stripe restricted", "rk_" + "live_", draw(ALNUM, 24))
    add("npm", "np" + "m_", draw(ALNUM, 36))
    add("sendgrid", "S" + "G.", draw(URL, 22) + "." + draw(URL, 43))
    payload = base64.urlsafe_b64encode(f'"sub":"{draw(ALNUM, 12)}"'.encode()).decode().rstrip("=")
    add("json web token", "ey" + "J", draw(ALNUM, 18) + "." + "ey" + "J" + payload + "." + draw(URL, 43))
    add("azure", "azure api-key: ", draw(HEX, 32))
    add("basic", "Authorization: Basic ", base64.b64encode(f"{draw(ALNUM, 9)}:{draw(ALNUM, 15)}".encode()).decode())
    add("bearer", "Authorization: Bearer ", draw(ALNUM, 40))
    add("password in a url", "postgresql://user:", draw(ALNUM, 14), "@db.internal:5432/app")
    add("pem", "-----BEGIN " + "PRIVATE KEY-----", draw(ALNUM + "/+", 64), "-----END " + "PRIVATE KEY-----")
    add("pypi", "pyp" + "i-", draw(URL, 80))
    add("digitalocean", "do" + "p_v1_", draw(HEX, 64))
    add("twilio", "S" + "K", draw(HEX, 32))
    add("mailgun", "ke" + "y-", draw(HEX, 32))
    add("telegram", str(rng.randrange(10**9, 10**10)) + ":", "AA" + draw(URL, 33))
    add("databricks", "da" + "pi", draw(HEX, 32))
    add("replicate", "r" + "8_", draw(ALNUM, 37))
    add("perplexity", "ppl" + "x-", draw(ALNUM, 48))
    add("fireworks", "f" + "w_", draw(ALNUM, 24))
    add("supabase", "sb" + "p_", draw(HEX, 40))
    add("linear", "lin_" + "api_", draw(ALNUM, 40))
    add("notion", "nt" + "n_", draw(ALNUM, 46))
    add("shopify", "shp" + "at_", draw(HEX, 32))
    add("discord", "", rng.choice("MNO") + draw(URL, 23) + "." + draw(URL, 6) + "." + draw(URL, 38))
    add("datadog", "datadog secret ", draw(HEX, 32))
    add("vault", "hv" + "s.", draw(URL, 90))
    add("named field", "client_secret=", draw(ALNUM, 18))
    assert len({kind.name for kind in found}) == len(found) >= 40
    return found


def kinds(seed: int = 7) -> list[Kind]:
    """All kinds, each with a secret of its own."""
    return _made(seed)


# How a secret is written
# ----------------------------------------------------------------------------------------------------


def _json_escaped(text: str) -> str:
    """Every letter that is neither a letter nor a digit as \\u00xx, as cautious encoders write it."""
    return "".join(letter if letter.isalnum() else f"\\u{ord(letter):04x}" for letter in text)


def _all_escaped(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def _percent_encoded(text: str) -> str:
    return "".join(letter if letter.isalnum() else f"%{ord(letter):02X}" for letter in text)


def _html(text: str) -> str:
    return "".join(letter if letter.isalnum() else f"&#{ord(letter)};" for letter in text)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _base64_in_words(text: str) -> str:
    """In the middle of a longer text that is encoded as a whole."""
    return base64.urlsafe_b64encode(f"the configuration is: {text} and so on".encode()).decode().rstrip("=")


TEXTS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "JSON-escaped": _json_escaped,
    "all letters JSON-escaped": _all_escaped,
    "percent-encoded": _percent_encoded,
    "HTML": _html,
    "base64": _base64,
    "base64 of a text": _base64_in_words,
}
"""Ways to write a secret in text."""


def traces_of(value: str) -> list[bytes]:
    """What would give a secret away: itself, and itself in each reversible form.

    Of base64, what any alignment has in common.
    """
    forms = {
        value,
        _json_escaped(value),
        _all_escaped(value),
        _percent_encoded(value),
        _percent_encoded(value).lower(),
        _html(value),
    }
    forms |= {value.replace("/", "\\/"), value.encode().hex()}
    raw = [form.encode() for form in forms]
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(b"\0" * shift + value.encode())
            raw.append(whole[4 if shift else 0 : len(whole) // 4 * 4 - 4])
    return raw
