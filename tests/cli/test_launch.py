"""Where `contextkit run` sends a program's calls: addresses of the user stay theirs, and the program is still redirected."""

from __future__ import annotations

import json
from pathlib import Path

import h11
import pytest

from contextkit.proxy.launch import Launch

ORIGIN = "http://127.0.0.1:9"
GATEWAY = "https://gateway.example/team"
CALLS = {
    "anthropic": ("/v1/messages", "anthropic-version"),
    "openai": ("/v1/responses", "openai-beta"),
    "google": ("/v1beta/models/gemini-3:generateContent", "x-goog-api-key"),
    "openrouter": ("/api/v1/chat/completions", "x-title"),
}
"""Upstream → path and a header of one of its calls."""


def launch(home: Path, *command: str, **environment: str) -> Launch:
    return Launch(command, environment, home)


def asked(launched: Launch, upstream: str) -> str:
    """Return the address that a call for `upstream` is passed on to."""
    return passed_on(launched, *CALLS[upstream])


def passed_on(launched: Launch, path: str, header: str) -> str:
    """Return the address that a request is passed on to."""
    headers = [("Host", "127.0.0.1:9"), (header, "1"), ("Content-Length", "0")]
    provider, target = launched.routes(None, 1.0).chosen(h11.Request(method="POST", target=path, headers=headers))
    return f"http{'s' * (provider.url.startswith('https'))}://{provider.host.decode()}{provider.prefix.decode()}{target.decode()}"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


FILES = {
    "claude": (".claude/settings.json", '{"env":{"ANTHROPIC_BASE_URL":"GATEWAY"}}', "anthropic", ""),
    "codex": (
        ".codex/config.toml",
        'model_provider = "ours"\n[model_providers.ours]\nbase_url = "GATEWAY/v1"',
        "openai",
        "",
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        '{"provider":{"anthropic":{"options":{"baseURL":"GATEWAY/v1"}}}}',
        "anthropic",
        "",
    ),
    "pi": (".pi/agent/models.json", '{"providers":{"google":{"baseUrl":"GATEWAY/v1beta"}}}', "google", ""),
    "gemini": (".gemini/.env", "GOOGLE_GEMINI_BASE_URL=GATEWAY", "google", "GOOGLE_GEMINI_BASE_URL"),
    "qwen": (".qwen/settings.json", '{"security":{"auth":{"baseUrl":"GATEWAY/v1"}}}', "openai", "OPENAI_BASE_URL"),
}
"""Command → file of the home folder, what it says, the upstream, and the variable that the program prefers to it."""


VENDORS = {
    ("/messages", "anthropic-version"): "https://api.anthropic.com/v1/messages",
    ("/v1/messages?beta=true", "anthropic-version"): "https://api.anthropic.com/v1/messages?beta=true",
    ("/api/hello", "accept"): "https://api.anthropic.com/api/hello",
    ("/v1/responses", "accept"): "https://api.openai.com/v1/responses",
    ("/chat/completions", "accept"): "https://api.openai.com/v1/chat/completions",
    ("/v1/responses", "chatgpt-account-id"): "https://chatgpt.com/backend-api/codex/responses",
    (
        "/v1/models?client_version=1",
        "chatgpt-account-id",
    ): "https://chatgpt.com/backend-api/codex/models?client_version=1",
    ("/backend-api/codex/responses", "accept"): "https://chatgpt.com/backend-api/codex/responses",
    ("/zen/v1/chat/completions", "accept"): "https://opencode.ai/zen/v1/chat/completions",
    ("/zen/v1/messages", "accept"): "https://opencode.ai/zen/v1/messages",
    ("/api/v1/chat/completions", "accept"): "https://openrouter.ai/api/v1/chat/completions",
    (
        "/v1beta/models/gemini-3:generateContent",
        "accept",
    ): "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent",
}
"""Path and header of a request → where it goes."""


@pytest.mark.parametrize("sent", VENDORS, ids=str)
def test_requests_go_to_the_vendor_whose_they_are(sent: tuple[str, str], tmp_path: Path) -> None:
    assert passed_on(launch(tmp_path, "python"), *sent) == VENDORS[sent]


@pytest.mark.parametrize("command", FILES)
def test_an_address_in_the_configuration_is_where_calls_go(command: str, tmp_path: Path) -> None:
    file, text, upstream, variable = FILES[command]
    write(tmp_path / file, text.replace("GATEWAY", GATEWAY))
    assert asked(launch(tmp_path, command), upstream) == GATEWAY + CALLS[upstream][0]
    if variable:
        other = launch(tmp_path, command, **{variable: "https://other.example"})
        assert asked(other, upstream).startswith("https://other.example/")
    else:
        named = launch(
            tmp_path, command, ANTHROPIC_BASE_URL="https://other.example", OPENAI_BASE_URL="https://o.example"
        )
        assert asked(named, upstream).startswith(GATEWAY)


def test_a_dotenv_file_beside_any_program_counts_where_the_environment_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path / ".env",
        f"# ours\nexport OPENAI_BASE_URL='{GATEWAY}/v1'\nGEMINI_API_BASE={GATEWAY}/v1beta # g\nOPENROUTER_API_BASE={GATEWAY}/api/v1",
    )
    python = launch(tmp_path, "python", "agent.py")
    for upstream in ("openai", "google", "openrouter"):
        assert asked(python, upstream) == GATEWAY + CALLS[upstream][0]
    assert asked(python, "anthropic") == "https://api.anthropic.com/v1/messages"
    named = launch(tmp_path, "python", OPENAI_BASE_URL="https://other.example/v1")
    assert asked(named, "openai") == "https://other.example/v1/responses"


def test_opencode_is_redirected_for_a_provider_whose_key_is_in_its_configuration(tmp_path: Path) -> None:
    write(
        tmp_path / ".config/opencode/opencode.json",
        json.dumps({"provider": {"anthropic": {"options": {"baseURL": GATEWAY, "apiKey": "k"}}}}),
    )
    said = launch(tmp_path, "opencode").variables(ORIGIN, tmp_path)
    providers = json.loads(said["OPENCODE_CONFIG_CONTENT"])["provider"]
    assert providers == {"anthropic": {"options": {"baseURL": f"{ORIGIN}/v1"}}}


def test_claude_code_is_redirected_by_an_argument_where_its_settings_would_win(tmp_path: Path) -> None:
    assert launch(tmp_path, "claude").arguments(ORIGIN, tmp_path) == []
    write(tmp_path / ".claude/settings.json", json.dumps({"env": {"ANTHROPIC_BASE_URL": GATEWAY}}))
    flag, settings = launch(tmp_path, "claude").arguments(ORIGIN, tmp_path)
    assert (flag, json.loads(settings)) == ("--settings", {"env": {"ANTHROPIC_BASE_URL": ORIGIN}})


def test_claude_code_takes_the_proxy_for_anthropic_s_host_only_where_it_is(tmp_path: Path) -> None:
    name = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
    assert launch(tmp_path, "claude").variables(ORIGIN, tmp_path)[name] == "1"
    assert name not in launch(tmp_path, "claude", ANTHROPIC_BASE_URL=GATEWAY).variables(ORIGIN, tmp_path)
    write(tmp_path / ".claude/settings.json", json.dumps({"env": {"ANTHROPIC_BASE_URL": GATEWAY}}))
    assert name not in launch(tmp_path, "claude").variables(ORIGIN, tmp_path)
