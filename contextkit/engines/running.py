"""Running engines, asked over HTTP: what they say of their configuration, and prompts of token ids with what was read.

vLLM (`/v1/completions`), SGLang (`/generate`) and llama.cpp's server (`/completion`) take token ids, return the ids
they generate, and tell how many tokens they read from their cache. Measured on vLLM 0.32.0, SGLang 0.5.23 and
llama.cpp b11549, each on a CPU.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from types import MappingProxyType
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from contextkit.engines.agreement import Reply
from contextkit.engines.prompt_stream import StreamedPrompt
from contextkit.engines.registry import sizes_of
from contextkit.errors import ProviderError, UsageError

TIMEOUT_SECONDS = 300
"""How long one answer may take; a large model on a CPU is slow."""


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
    untold: tuple[str, ...] = ()
    """Options it does not tell: they are the engine's defaults unless somebody says otherwise."""


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
    """The server answered with an HTTP status of 400 or more."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Http:
    """JSON over HTTP to one address."""

    def __init__(self, base_url: str, api_key: str | None) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise UsageError(f"{base_url!r} is no address of a server: give one such as http://127.0.0.1:8000")
        self._base_url = base_url.rstrip("/").removesuffix("/v1")
        self._headers = {"Content-Type": "application/json"}
        if api_key:
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
        request = Request(self._base_url + path, data, self._headers)  # noqa: S310  # checked above to be HTTP
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                return str(answer.read().decode("utf-8", "replace"))
        except HTTPError as error:
            raise _Refused(error.code, _message(error.read().decode("utf-8", "replace"))) from error
        except (URLError, HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ProviderError(
                f"nothing usable answers at {self._base_url} ({reason}): start the server, or correct --base-url"
            ) from error

    def _json(self, path: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise ProviderError(
                f"{self._base_url}{path} answers no JSON: --base-url is the address of another program"
            ) from error


def _message(text: str) -> str:
    """The message of an error's body, at most a line of it."""
    try:
        body = json.loads(text)
        error = body.get("error", body)
        text = str(error.get("message") or error) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        pass
    return " ".join(text.split())[:200]


def _metric(page: str | None, name: str) -> int | None:
    """The sum of one counter of a Prometheus page, None where it is not there."""
    values = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? ([\d.e+]+)$", page or "", re.MULTILINE)
    return round(sum(map(float, values))) if values else None


class VLLM:
    """A vLLM server: `vllm serve MODEL --enable-prompt-tokens-details`."""

    def __init__(self, base_url: str, model: str | None = None, api_key: str | None = None) -> None:
        """`model`: the one to ask for where it serves several; None for the first."""
        self._http, self._model = _Http(base_url, api_key), model

    def configuration(self) -> Configuration:
        """Read `/version`, `/v1/models` and `cache_config_info` of `/metrics`."""
        version = _told(self._http, "/version", "version", "vLLM")
        models = {str(row["id"]): row for row in self._http.get("/v1/models").get("data", [])}
        if self._model is not None and self._model not in models:
            raise ProviderError(f"this server has no model {self._model!r}: it serves {', '.join(models)}")
        self._model = self._model or next(iter(models))
        told = _labels(self._http.text("/metrics"), "vllm:cache_config_info")
        options: dict[str, Any] = {"engine_version": version}
        if told.get("block_size", "").isdigit():
            options["block_size"] = int(told["block_size"])
            if told.get("num_gpu_blocks", "").isdigit():
                options["capacity_tokens"] = options["block_size"] * int(told["num_gpu_blocks"])
        if told.get("enable_prefix_caching") == "False":
            raise ProviderError("its prefix caching is off: start it with --enable-prefix-caching")
        if told.get("sliding_window", "").isdigit():
            options["window"] = int(told["sliding_window"])
        if told.get("prefix_cache_retention_interval", "").isdigit():
            options["retention"] = int(told["prefix_cache_retention_interval"])
        context = models[self._model].get("max_model_len")
        return Configuration("vllm", version, self._model, context, options, _untold("vllm", options))

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
        answer = self._http.post("/v1/completions", body)
        details = answer["usage"].get("prompt_tokens_details") or {}
        read = details.get("cached_tokens")
        if read is None:
            raise ProviderError(
                "this server does not report cached tokens: start vLLM with --enable-prompt-tokens-details"
            )
        return Reply(read, tuple(answer["choices"][0].get("token_ids") or ()))

    def prompt_tokens(self) -> int | None:
        """Read `vllm:prompt_tokens_total`."""
        return _metric(self._http.text("/metrics"), "vllm:prompt_tokens_total")


class SGLang:
    """An SGLang server: `python -m sglang.launch_server --model-path MODEL`."""

    def __init__(self, base_url: str, model: str | None = None, api_key: str | None = None) -> None:
        """`model`: checked against the one it serves."""
        self._http, self._model = _Http(base_url, api_key), model

    def configuration(self) -> Configuration:
        """Read `/server_info`."""
        version = _told(self._http, "/server_info", "version", "SGLang")
        told = self._http.get("/server_info")
        names = (told.get("served_model_name"), told.get("model_path"))
        if self._model is not None and self._model not in names:
            raise ProviderError(f"this server has no model {self._model!r}: it serves {names[0] or names[1]}")
        if told.get("disable_radix_cache"):
            raise ProviderError("its radix cache is off: start it without --disable-radix-cache")
        options = {
            "engine_version": version,
            "block_size": told.get("page_size"),
            "capacity_tokens": told.get("max_total_num_tokens"),
            "policy": told.get("radix_eviction_policy"),
        }
        options = {name: value for name, value in options.items() if value is not None}
        context = told.get("context_length") or told.get("max_req_input_len")
        return Configuration("sglang", version, names[0] or names[1], context, options, _untold("sglang", options))

    def reset(self) -> bool:
        """Empty its cache (`/flush_cache`), which it does where no request is under way."""
        return self._http.try_post("/flush_cache")

    def complete(self, prompt: StreamedPrompt) -> Reply:
        """Send a prompt to `/generate`."""
        sampling = {"max_new_tokens": prompt.n_output, "ignore_eos": True, "temperature": 0}
        body: dict[str, Any] = {"input_ids": prompt.tokens, "sampling_params": sampling}
        if prompt.salt is not None:
            body["extra_key"] = prompt.salt
        answer = self._http.post("/generate", body)
        read = answer["meta_info"].get("cached_tokens")
        if read is None:
            raise ProviderError(
                "this server does not report cached tokens: it is a release before 0.4, take a newer one"
            )
        return Reply(read, tuple(answer["output_ids"]))

    def prompt_tokens(self) -> int | None:
        """Read `sglang:prompt_tokens_total`, which it keeps with `--enable-metrics`."""
        return _metric(self._http.text("/metrics"), "sglang:prompt_tokens_total")


class LlamaCpp:
    """llama.cpp's server: `llama-server -m MODEL.gguf`."""

    def __init__(self, base_url: str, model: str | None = None, api_key: str | None = None) -> None:
        """`model`: checked against the one it serves."""
        self._http, self._model = _Http(base_url, api_key), model

    def configuration(self) -> Configuration:
        """Read `/props`."""
        slots = _told(self._http, "/props", "total_slots", "llama.cpp's server")
        told = self._http.get("/props")
        names = (told.get("model_alias"), told.get("model_path"))
        if self._model is not None and self._model not in names:
            raise ProviderError(f"this server has no model {self._model!r}: it serves {names[0] or names[1]}")
        context = told["default_generation_settings"].get("n_ctx")
        options = {"slots": slots} | ({"slot_tokens": context} if context else {})
        version = told.get("build_info")
        return Configuration("llamacpp", version, names[0] or names[1], context, options, _untold("llamacpp", options))

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
        try:
            answer = self._http.post("/completion", body)
        except _Refused as error:
            if error.status != 400:
                raise
            return Reply(0, refusal=str(error))
        timings = answer.get("timings", {})
        if "cache_n" not in timings:
            raise ProviderError("this server does not report cached tokens (timings.cache_n): take a newer release")
        return Reply(timings["cache_n"], tuple(answer.get("tokens") or ()), answer.get("id_slot"))

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


def _told(http: _Http, path: str, name: str, program: str) -> Any:
    """One field that tells whether the address is the right program's."""
    try:
        told = http.get(path)
    except _Refused as error:
        if error.status in (503, 502):
            raise ProviderError(
                f"its model is not loaded yet ({error}): wait until it is, and run this again"
            ) from error
        if error.status in (401, 403):
            raise ProviderError(f"it wants a key ({error}): give it with --api-key or CONTEXTKIT_ENGINE_KEY") from error
        raise ProviderError(
            f"{program} has {path}, this server has not: give another --base-url or --engine"
        ) from error
    if not isinstance(told, dict) or name not in told:
        raise ProviderError(f"{path} of this server has no {name}: it is not {program}, give another --engine")
    return told[name]


def _untold(engine: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in sizes_of(engine) if name not in options)


def _labels(page: str | None, name: str) -> dict[str, str]:
    """The labels of one series of a Prometheus page."""
    found = re.search(rf"^{re.escape(name)}\{{(.*)\}} ", page or "", re.MULTILINE)
    return dict(re.findall(r'(\w+)="([^"]*)"', found[1])) if found else {}
