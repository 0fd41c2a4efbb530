"""Running engines, asked over HTTP: what they say of their configuration, and prompts of token ids with what was read.

vLLM (`/v1/completions`), SGLang (`/generate`) and llama.cpp's server (`/completion`) take token ids, return the ids
they generate, and tell how many tokens they read from their cache. Measured on vLLM 0.32.0, SGLang 0.5.23 and
llama.cpp b11549, each on a CPU.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from math import isfinite
from types import MappingProxyType
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener, getproxies

from contextkit.engines.agreement import Reply
from contextkit.engines.prompt_stream import StreamedPrompt
from contextkit.engines.registry import sizes_of
from contextkit.errors import ProviderError, UsageError

TIMEOUT_SECONDS = 300
"""How long one answer may take where nobody says; a large model on a CPU is slow."""
_TOLD_SECONDS = 30
"""How long a server may take to say what it is."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a running engine says of itself."""

    engine: str
    """Its name, a key of `ENGINES`."""
    version: str | None
    """Its release, None where it does not say."""
    model: str | None
    """The model it serves."""
    context_tokens: int | None
    """Tokens of the longest prompt with its reply."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the reference cache (`engines.registry`) it tells."""
    unreported: tuple[str, ...] = ()
    """Options it does not tell: they are the engine's defaults unless somebody says otherwise."""
    likely: Mapping[str, Any] = field(default_factory=dict)
    """Of the unreported, defaults that depend on what it tells."""


class RunningEngine(Protocol):
    """One server."""

    def configuration(self) -> Configuration:
        """Ask what it is and how it is set; raises `ProviderError` where nothing answers, or something else does."""
        ...

    def reset(self) -> bool:
        """Empty its cache; False where it offers no way to."""
        ...

    def complete(self, prompt: StreamedPrompt) -> Reply:
        """Send a prompt and wait; raises `ProviderError` where the answer does not tell what was read."""
        ...

    def prompt_tokens(self) -> int | None:
        """Tokens of all prompts it has taken since its start, None where it keeps no such counter."""
        ...


class _Refused(ProviderError):
    """The server answered with an HTTP status of 300 or more."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind
        """The `type` of its error, empty where it has none."""


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: it is an answer like any other."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request."""


class _Http:
    """JSON over HTTP to one address; what goes wrong is one line that says what to do, and never holds the key."""

    def __init__(self, base_url: str, api_key: str | None, timeout_seconds: float) -> None:
        self._base_url = _checked_url(base_url)
        self._headers = {"Content-Type": "application/json"}
        self._key, self._timeout_seconds = api_key, timeout_seconds
        host = urlsplit(self._base_url).hostname or ""
        is_here = host == "localhost" or host.startswith("127.") or host == "::1"
        self._proxy = None if is_here else getproxies().get(urlsplit(self._base_url).scheme)
        # a redirect would carry the key to another host, a proxy everything that is meant for this machine
        self._opener = build_opener(_NoRedirect, ProxyHandler({} if is_here else None))
        self._has_answered = False
        if api_key:
            if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
                raise UsageError("the key holds characters that no header takes: correct --api-key")
            self._headers["Authorization"] = f"Bearer {api_key}"

    def get(self, path: str) -> Any:
        return self._json(path, self._text(path))

    def text(self, path: str) -> str | None:
        """A page of text, None where there is none."""
        try:
            return self._text(path)
        except _Refused:
            return None

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json(path, self._text(path, json.dumps(body).encode()))

    def try_post(self, path: str) -> bool:
        try:
            self._text(path, b"{}")
        except _Refused:
            return False
        return True

    def _text(self, path: str, data: bytes | None = None) -> str:
        seconds = self._timeout_seconds if data else min(self._timeout_seconds, _TOLD_SECONDS)
        request = Request(self._base_url + path, data, self._headers)  # noqa: S310  # checked above to be HTTP
        try:
            try:
                with self._opener.open(request, timeout=seconds) as answer:
                    text = str(answer.read().decode("utf-8", "replace"))
            except HTTPError as error:
                raise self._refused(path, error.code, error.read().decode("utf-8", "replace")) from error
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise self._failed(path, getattr(error, "reason", error), seconds) from error
        self._has_answered = True
        return text

    def _failed(self, path: str, reason: object, seconds: float) -> ProviderError:
        """Say what kept an answer from coming."""
        if isinstance(reason, TimeoutError):
            return ProviderError(
                f"{self._base_url}{path} gave no answer within {seconds:g} s: look at the server's log, or wait longer with --timeout"
            )
        what = f"{reason}" or type(reason).__name__
        if self._has_answered:
            return ProviderError(
                f"{self._base_url} stopped answering ({what}): look at the server's log, start it again"
            )
        through = " through the proxy that the environment names" if self._proxy else ""
        return ProviderError(
            f"nothing usable answers at {self._base_url}{through} ({what}): start the server, or correct --base-url"
        )

    def _refused(self, path: str, status: int, text: str) -> _Refused:
        """Say what the server did not like; its text may quote the key, which is left out."""
        kind, message = _error_of(text)
        if self._key:
            message = re.sub(re.escape(self._key), "…", message, flags=re.IGNORECASE)
        message = message[:200]
        if 300 <= status < 400:
            return _Refused(status, kind, f"{path} of {self._base_url} leads elsewhere ({status}): give that address")
        said = f"{path} of {self._base_url} answers {status}" + (f", {message!r}" if message else "")
        if status in (401, 403):
            key = "takes another key: correct --api-key" if self._key else "wants a key: give it with --api-key"
            return _Refused(status, kind, f"{said}: it {key} or CONTEXTKIT_ENGINE_KEY")
        if status in (502, 503, 504):
            return _Refused(status, kind, f"{said}: wait until its model is loaded, and run this again")
        return _Refused(status, kind, f"{said}: the server's log says more")

    def _json(self, path: str, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProviderError(
                f"{self._base_url}{path} answers no JSON: --base-url is the address of another program"
            ) from error


def _checked_url(base_url: str) -> str:
    """An address without `/v1` and the slash behind it; raises `UsageError` for what is none."""
    try:
        parts = urlsplit(base_url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_address = False
    if not is_address or not (base_url.isascii() and base_url.isprintable() and " " not in base_url):
        raise UsageError(f"{base_url!r} is no address of a server: give one such as http://127.0.0.1:8000")
    if parts.username is not None or parts.query or parts.fragment:  # they may hold a key, so the URL is not shown
        raise UsageError("--base-url takes scheme, host, port and path alone: give a key with --api-key")
    return base_url.rstrip("/").removesuffix("/v1")


def _error_of(text: str) -> tuple[str, str]:
    """The type of an error's body and its message, as one line."""
    kind = ""
    try:
        body = json.loads(text)
    except ValueError:
        body = None if text.lstrip().startswith("<") else text  # a page of HTML says nothing in its first line
    if isinstance(body, dict):
        error = body.get("error", body)
        if isinstance(error, dict):
            kind, body = str(error.get("type") or ""), error.get("message") or error.get("detail") or ""
        else:
            body = error
    return kind, " ".join(str(body or "").split())


@contextmanager
def _reading(program: str, path: str) -> Iterator[None]:
    """Inside, an answer is read; one that is not built as the program's is an error that says so."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise ProviderError(
            f"the answer of {path} is not as {program} gives it ({error!r}): give another --engine, or another release"
        ) from error


def _metric(page: str | None, name: str) -> int | None:
    """The sum of one counter of a Prometheus page, None where it is not there."""
    values = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? ([\d.e+]+)$", page or "", re.MULTILINE)
    total = sum(map(float, values))
    return round(total) if values and isfinite(total) else None


def _count(value: Any) -> int:
    """A whole number of an answer; raises `TypeError` for what is none."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is no number of tokens")
    return value


class _Server:
    """A server of any engine."""

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """`model`: the one to ask for, which must be served; None for the first that is."""
        self._http, self._model = _Http(base_url, api_key, timeout_seconds), model


class VLLM(_Server):
    """A vLLM server: `vllm serve MODEL --enable-prompt-tokens-details`."""

    def configuration(self) -> Configuration:
        """Read `/version`, `/v1/models` and `cache_config_info` of `/metrics`."""
        version = str(_identified(self._http, "/version", "version", "vLLM")["version"])
        with _reading("vLLM", "/v1/models"):
            models = {str(row["id"]): row for row in self._http.get("/v1/models")["data"]}
            self._model = _served(self._model, tuple(models))
            context = models[self._model].get("max_model_len")
        told = _labels(self._http.text("/metrics"), "vllm:cache_config_info")
        if told.get("enable_prefix_caching") == "False":
            raise ProviderError("its prefix caching is off: start it with --enable-prefix-caching")
        options: dict[str, Any] = _release(version)
        if told.get("block_size", "").isdigit():
            options["block_size"] = int(told["block_size"])
            if told.get("num_gpu_blocks", "").isdigit():
                options["capacity_tokens"] = options["block_size"] * int(told["num_gpu_blocks"])
        for option, label in (("window", "sliding_window"), ("retention", "prefix_cache_retention_interval")):
            if told.get(label, "").isdigit():
                options[option] = int(told[label])
        if told.get("sliding_window") == "None":
            options["window"] = 0
        if told.get("prefix_cache_retention_interval") == "None" and "block_size" in options:
            options["retention"] = options["block_size"]  # it keeps every block
        return Configuration("vllm", version, self._model, context, options, _unreported("vllm", options))

    def reset(self) -> bool:
        """Empty its prefix cache, which a server started with `VLLM_SERVER_DEV_MODE=1` lets do."""
        return self._http.try_post("/reset_prefix_cache")

    def complete(self, prompt: StreamedPrompt) -> Reply:
        """Send a prompt to `/v1/completions`."""
        body = {
            "model": self._model,
            "prompt": prompt.tokens,
            "max_tokens": prompt.n_output,
            "ignore_eos": True,
            "temperature": 0,
            "return_token_ids": True,
        }
        if prompt.salt is not None:
            body["cache_salt"] = prompt.salt
        with _reading("vLLM", "/v1/completions"):
            answer = self._http.post("/v1/completions", body)
            read = (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens")
            read = None if read is None else _count(read)
            generated = tuple(map(_count, answer["choices"][0].get("token_ids") or ()))
        if read is None:
            raise ProviderError(
                "this server does not report cached tokens: start vLLM with --enable-prompt-tokens-details"
            )
        if not generated:
            raise ProviderError(
                "this server does not return the ids of generated tokens (return_token_ids): take a newer release of vLLM"
            )
        return Reply(read, generated)

    def prompt_tokens(self) -> int | None:
        """Read `vllm:prompt_tokens_total`."""
        return _metric(self._http.text("/metrics"), "vllm:prompt_tokens_total")


class SGLang(_Server):
    """An SGLang server: `python -m sglang.launch_server --model-path MODEL`."""

    def configuration(self) -> Configuration:
        """Read `/server_info`."""
        told = _identified(self._http, "/server_info", "version", "SGLang")
        version = str(told["version"])
        names = tuple(str(name) for name in (told.get("served_model_name"), told.get("model_path")) if name)
        if told.get("disable_radix_cache"):
            raise ProviderError("its radix cache is off: start it without --disable-radix-cache")
        options = {
            "block_size": told.get("page_size"),
            "capacity_tokens": told.get("max_total_num_tokens"),
            "policy": told.get("radix_eviction_policy"),
        }
        options = _release(version) | {name: value for name, value in options.items() if value is not None}
        context = told.get("context_length") or told.get("max_req_input_len")
        return Configuration(
            "sglang", version, _served(self._model, names), context, options, _unreported("sglang", options)
        )

    def reset(self) -> bool:
        """Empty its cache (`/flush_cache`), which it does where no request is under way."""
        return self._http.try_post("/flush_cache")

    def complete(self, prompt: StreamedPrompt) -> Reply:
        """Send a prompt to `/generate`."""
        sampling = {"max_new_tokens": prompt.n_output, "ignore_eos": True, "temperature": 0}
        body: dict[str, Any] = {"input_ids": prompt.tokens, "sampling_params": sampling}
        if prompt.salt is not None:
            body["extra_key"] = prompt.salt
        with _reading("SGLang", "/generate"):
            answer = self._http.post("/generate", body)
            read, generated = answer["meta_info"].get("cached_tokens"), tuple(map(_count, answer["output_ids"]))
            read = None if read is None else _count(read)
        if read is None:
            raise ProviderError(
                "this server does not report cached tokens: it is a release before 0.4, take a newer one"
            )
        return Reply(read, generated)

    def prompt_tokens(self) -> int | None:
        """Read `sglang:prompt_tokens_total`, which it keeps with `--enable-metrics`, from its first request on."""
        page = self._http.text("/metrics")
        return None if page is None or "\nsglang:" not in page else _metric(page, "sglang:prompt_tokens_total") or 0


class LlamaCpp(_Server):
    """llama.cpp's server: `llama-server -m MODEL.gguf`."""

    def configuration(self) -> Configuration:
        """Read `/props`."""
        told = _identified(self._http, "/props", "total_slots", "llama.cpp's server")
        names = tuple(str(name) for name in (told.get("model_alias"), told.get("model_path")) if name)
        with _reading("llama.cpp's server", "/props"):
            context, slots = told["default_generation_settings"].get("n_ctx"), _count(told["total_slots"])
            context = None if context is None else _count(context)
        options = {"slots": slots} | ({"slot_tokens": context} if context else {})
        return Configuration(
            "llamacpp",
            told.get("build_info"),
            _served(self._model, names),
            context,
            options,
            _unreported("llamacpp", options),
            likely={"unified": slots == 4},  # as they are where nobody says --parallel
        )

    def reset(self) -> bool:
        """Return False: slots can be erased, but not the states on the host, nor the order of the slots' last use."""
        return False

    def complete(self, prompt: StreamedPrompt) -> Reply:
        """Send a prompt to `/completion`; one too long for a slot comes back with a refusal."""
        body = {
            "prompt": prompt.tokens,
            "n_predict": prompt.n_output,
            "return_tokens": True,
            "ignore_eos": True,
            "temperature": 0,
        }
        with _reading("llama.cpp's server", "/completion"):
            try:
                answer = self._http.post("/completion", body)
            except _Refused as error:
                if error.kind != "exceed_context_size_error":
                    raise
                return Reply(0, refusal=str(error))
            read = answer.get("timings", {}).get("cache_n")
            read = None if read is None else _count(read)
            generated = tuple(map(_count, answer.get("tokens") or ()))
        if read is None:
            raise ProviderError("this server does not report cached tokens (timings.cache_n): take a newer release")
        return Reply(read, generated, answer.get("id_slot"))

    def tokens_of(self, text: str) -> list[int]:
        """Ask for the token ids of a text (`/tokenize`)."""
        return list(self._http.post("/tokenize", {"content": text})["tokens"])

    def prompt_tokens(self) -> int | None:
        """Read the counters of computed and cached tokens, which it keeps with `--metrics`."""
        page = self._http.text("/metrics")
        computed = _metric(page, "llamacpp:prompt_tokens_total")
        cached = _metric(page, "llamacpp:prompt_tokens_cached_total")
        return None if computed is None else computed + (cached or 0)


RUNNING: Mapping[str, Callable[..., RunningEngine]] = MappingProxyType(
    {"vllm": VLLM, "sglang": SGLang, "llamacpp": LlamaCpp}
)
"""Name of an engine → what asks a server of it."""
ADDRESSES = {"vllm": "http://127.0.0.1:8000", "sglang": "http://127.0.0.1:30000", "llamacpp": "http://127.0.0.1:8080"}
"""Engine → where it listens unless it is told otherwise."""


def _identified(http: _Http, path: str, name: str, program: str) -> dict[str, Any]:
    """A page that tells, by having this field, whether the address is the right program's."""
    try:
        told = http.get(path)
    except _Refused as error:
        if error.status < 400 or error.status in (401, 403, 502, 503, 504):
            raise
        raise ProviderError(
            f"{program} has {path}, this server has not ({error.status}): give another --base-url or --engine"
        ) from error
    if not isinstance(told, dict) or name not in told:
        raise ProviderError(f"{path} of this server has no {name}: it is not {program}, give another --engine")
    return told


def _served(model: str | None, names: tuple[str, ...]) -> str:
    """The model that is asked for, or the first that is served; raises `ProviderError` where it is not served."""
    if not names:
        raise ProviderError("this server serves no model: start it with one")
    if model is not None and model not in names:
        raise ProviderError(f"this server has no model {model!r}: it serves {', '.join(dict.fromkeys(names))}")
    return model or names[0]


def _release(version: str) -> dict[str, Any]:
    """The option `engine_version`, without what builds add (`+cpu`, `rc1`); empty for a version without three numbers."""
    numbers = re.match(r"v?(\d+\.\d+\.\d+)", version)
    return {"engine_version": numbers[1]} if numbers else {}


def _unreported(engine: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in sizes_of(engine) if name not in options)


def _labels(page: str | None, name: str) -> dict[str, str]:
    """The labels of one series of a Prometheus page."""
    found = re.search(rf"^{re.escape(name)}\{{(.*)\}} ", page or "", re.MULTILINE)
    return dict(re.findall(r'(\w+)="([^"]*)"', found[1])) if found else {}
