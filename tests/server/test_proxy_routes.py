"""Several providers behind one port, and how programs are told to call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h11
import pytest

from contextkit.errors import UsageError
from contextkit.facts.load import built_in_table
from contextkit.proxy.launch import Launch

ORIGIN = "http://127.0.0.1:4711"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}


def chosen(launch: Launch, method: str, target: str, **headers: str) -> str:
    """The address that a request goes to."""
    named = {"Host": "127.0.0.1:4711", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = h11.Request(method=method, target=target, headers=list(named.items()))
    upstream, path = launch.routes(None, 10.0).chosen(request)
    return f"{upstream.url.removesuffix(upstream.prefix.decode())}{upstream.prefix.decode()}{path.decode()}"


@pytest.mark.parametrize(
    ("method", "target", "headers", "address"),
    [
        ("POST", "/v1/messages?beta=true", {}, "https://api.anthropic.com/v1/messages?beta=true"),
        ("POST", "/messages", {}, "https://api.anthropic.com/v1/messages"),  # AI SDK
        ("POST", "/v1/messages/count_tokens", {}, "https://api.anthropic.com/v1/messages/count_tokens"),
        ("GET", "/v1/models", {"anthropic_version": "2023-06-01"}, "https://api.anthropic.com/v1/models"),
        ("HEAD", "/api/hello", {}, "https://api.anthropic.com/api/hello"),
        ("POST", "/v1/responses", {}, "https://api.openai.com/v1/responses"),
        ("POST", "/responses", {}, "https://api.openai.com/v1/responses"),
        ("GET", "/v1/responses", UPGRADE, "https://api.openai.com/v1/responses"),
        ("GET", "/v1/models", {}, "https://api.openai.com/v1/models"),
        ("POST", "/v1/chat/completions", {}, "https://api.openai.com/v1/chat/completions"),
        ("POST", "/v1/embeddings", {}, "https://api.openai.com/v1/embeddings"),
        ("POST", "/v1/responses", {"chatgpt_account_id": "a"}, "https://chatgpt.com/backend-api/codex/responses"),
        (
            "GET",
            "/v1/responses",
            {**UPGRADE, "chatgpt_account_id": "a"},
            "https://chatgpt.com/backend-api/codex/responses",
        ),
        ("POST", "/backend-api/codex/responses", {}, "https://chatgpt.com/backend-api/codex/responses"),
        (
            "POST",
            "/v1beta/models/gemini-3-pro:generateContent",
            {},
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:generateContent",
        ),
        ("POST", "/api/v1/chat/completions", {}, "https://openrouter.ai/api/v1/chat/completions"),
        ("POST", "/zen/v1/messages", {}, "https://opencode.ai/zen/v1/messages"),
        ("GET", "/", {}, "https://api.anthropic.com/"),  # the program's own
        ("POST", "/v1/chat/completions", {"x_api_key": "of a gateway"}, "https://api.openai.com/v1/chat/completions"),
        ("GET", "/v1/models", {"x_api_key": "k"}, "https://api.anthropic.com/v1/models"),
    ],
)
def test_path_and_headers_say_which_provider_is_meant(
    method: str, target: str, headers: dict[str, str], address: str, tmp_path: Path
) -> None:
    assert chosen(Launch(["claude"], {}, tmp_path), method, target, **headers) == address


def test_addresses_of_the_environment_come_first(tmp_path: Path) -> None:
    environment = {
        "ANTHROPIC_BASE_URL": "https://gateway.example/anthropic",
        "OPENAI_BASE_URL": "https://openrouter.example/api/v1",
        "GOOGLE_GEMINI_BASE_URL": "http://localhost:9",
    }
    launch = Launch(["python"], environment, tmp_path)
    assert chosen(launch, "POST", "/v1/messages") == "https://gateway.example/anthropic/v1/messages"
    assert chosen(launch, "POST", "/messages") == "https://gateway.example/anthropic/v1/messages"
    assert chosen(launch, "POST", "/v1/chat/completions") == "https://openrouter.example/api/v1/chat/completions"
    assert chosen(launch, "POST", "/v1beta/models/g:countTokens") == "http://localhost:9/v1beta/models/g:countTokens"
    with_version = Launch(["python"], {"ANTHROPIC_BASE_URL": "https://gateway.example/v1"}, tmp_path)
    assert chosen(with_version, "POST", "/v1/messages") == "https://gateway.example/v1/messages"
    other = Launch(["python"], {"OPENAI_BASE_URL": "https://host.example/paas/v4"}, tmp_path)
    assert chosen(other, "POST", "/v1/chat/completions") == "https://host.example/paas/v4/chat/completions"
    for address in ("ftp://host", "https://ex\xe4mple..com", "https://" + "\xe4" * 80, "https://u:secret@host"):
        with pytest.raises(UsageError, match="OPENAI_BASE_URL") as refused:
            Launch(["python"], {"OPENAI_BASE_URL": address}, tmp_path).routes(None, 10.0)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "content",
    ["no JSON", "[1]", '{"provider":[1]}', '{"provider":{"openai":"x"}}', '{"provider":{"openai":{"options":null}}}'],
)
def test_a_content_that_is_no_configuration_is_left_to_the_program(content: str, tmp_path: Path) -> None:
    launch = Launch(["opencode"], {"OPENAI_API_KEY": "k", "OPENCODE_CONFIG_CONTENT": content}, tmp_path)
    assert "OPENCODE_CONFIG_CONTENT" not in launch.variables(ORIGIN, tmp_path)


def test_addresses_of_a_configuration_come_before_those(tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "https://ours.example"}}))
    claude = Launch(["claude"], {"ANTHROPIC_BASE_URL": "https://other.example"}, tmp_path)
    assert chosen(claude, "POST", "/v1/messages") == "https://ours.example/v1/messages"
    assert claude.arguments(ORIGIN, tmp_path) == ["--settings", f'{{"env":{{"ANTHROPIC_BASE_URL":"{ORIGIN}"}}}}']
    assert "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL" not in claude.variables(ORIGIN, tmp_path)
    settings.write_text("{broken")
    claude = Launch(["claude"], {}, tmp_path)
    assert claude.arguments(ORIGIN, tmp_path) == []
    assert claude.variables(ORIGIN, tmp_path)["_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"] == "1"

    config = tmp_path / "codex" / "config.toml"
    config.parent.mkdir()
    config.write_text('model_provider = "mine"\n[model_providers.mine]\nbase_url = "http://localhost:8000/v1"\n')
    codex = Launch(["codex", "exec"], {"CODEX_HOME": str(config.parent)}, tmp_path)
    assert chosen(codex, "POST", "/v1/responses") == "http://localhost:8000/v1/responses"
    expected = ["-c", f'openai_base_url="{ORIGIN}/v1"', "-c", f'model_providers.mine.base_url="{ORIGIN}/v1"']
    assert codex.arguments(ORIGIN, tmp_path) == expected
    config.write_text('openai_base_url = "http://localhost:8000/v1"\n')
    codex = Launch(["codex"], {"CODEX_HOME": str(config.parent)}, tmp_path)
    assert chosen(codex, "POST", "/v1/responses") == "http://localhost:8000/v1/responses"
    assert codex.arguments(ORIGIN, tmp_path) == expected[:2]


GATEWAY = "https://gateway.example/team"
CALLS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/responses",
    "google": "/v1beta/models/gemini-3-pro:generateContent",
    "openrouter": "/api/v1/chat/completions",
}
"""Upstream → path of a call."""
CONFIGURED = {
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


@pytest.mark.parametrize("command", CONFIGURED)
def test_an_address_in_the_configuration_is_where_calls_go(command: str, tmp_path: Path) -> None:
    file, text, upstream, variable = CONFIGURED[command]
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text.replace("GATEWAY", GATEWAY))
    path, other = CALLS[upstream], {"ANTHROPIC_BASE_URL": "https://other.example", variable: "https://other.example"}
    assert chosen(Launch([command], {}, tmp_path), "POST", path) == GATEWAY + path
    is_environments = chosen(Launch([command], other, tmp_path), "POST", path).startswith("https://other.example/")
    assert is_environments == bool(variable)


def test_a_dotenv_file_counts_where_the_environment_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    openai = f"export OPENAI_BASE_URL='{GATEWAY}/v1'"
    others = f"GEMINI_API_BASE={GATEWAY}/v1beta # g\nOPENROUTER_API_BASE={GATEWAY}/api/v1"
    (tmp_path / ".env").write_text(f"# ours\n{openai}\n{others}\n")
    python = Launch(["python", "agent.py"], {}, tmp_path)
    for upstream in ("openai", "google", "openrouter"):
        assert chosen(python, "POST", CALLS[upstream]) == GATEWAY + CALLS[upstream]
    assert chosen(python, "POST", CALLS["anthropic"]) == "https://api.anthropic.com/v1/messages"
    named = Launch(["python"], {"OPENAI_BASE_URL": "https://other.example/v1"}, tmp_path)
    assert chosen(named, "POST", CALLS["openai"]) == "https://other.example/v1/responses"


def test_opencode_is_redirected_for_a_provider_whose_key_is_in_its_configuration(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "opencode" / "opencode.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"provider": {"anthropic": {"options": {"baseURL": GATEWAY, "apiKey": "k"}}}}))
    said = Launch(["opencode"], {}, tmp_path).variables(ORIGIN, tmp_path)
    assert json.loads(said["OPENCODE_CONFIG_CONTENT"])["provider"] == {
        "anthropic": {"options": {"baseURL": f"{ORIGIN}/v1"}}
    }


def test_files_and_contents_are_made_for_clients_that_need_them(tmp_path: Path) -> None:
    pi = Launch(["pi", "-p", "hi"], {}, tmp_path)
    flag, file = pi.arguments(ORIGIN, tmp_path)
    assert flag == "-e" and f'"{ORIGIN}" + path' in Path(file).read_text()
    assert Launch(["pi", "list"], {}, tmp_path).arguments(ORIGIN, tmp_path) == []

    own = {"provider": {"openai": {"options": {"timeout": 5}}}, "theme": "x"}
    environment = {"OPENAI_API_KEY": "k", "OPENCODE_CONFIG_CONTENT": json.dumps(own)}
    login = tmp_path / ".local" / "share" / "opencode" / "auth.json"
    login.parent.mkdir(parents=True)
    login.write_text('{"anthropic": {"type": "oauth"}}')
    content = json.loads(
        Launch(["opencode"], environment, tmp_path).variables(ORIGIN, tmp_path)["OPENCODE_CONFIG_CONTENT"]
    )
    assert content == {
        "provider": {
            "openai": {"options": {"timeout": 5, "baseURL": f"{ORIGIN}/v1"}},
            "anthropic": {"options": {"baseURL": f"{ORIGIN}/v1"}},
        },
        "theme": "x",
    }
    gemini = Launch(["gemini"], {"GEMINI_API_KEY": "k"}, tmp_path).variables(ORIGIN, tmp_path)
    defaults = json.loads(Path(gemini["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"]).read_text())
    assert defaults["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert "GEMINI_CLI_SYSTEM_DEFAULTS_PATH" not in Launch(["gemini"], {}, tmp_path).variables(ORIGIN, tmp_path)


@pytest.mark.parametrize("row", built_in_table("clients.toml")["redirects"], ids=lambda row: row["name"])
def test_every_row_redirects_and_says_how_it_is_known(row: dict[str, Any], tmp_path: Path) -> None:
    environment = {one["key"]: "k" for one in row.get("providers", {}).values()}
    launch = Launch([*row["commands"][:1]], environment, tmp_path)
    said = [*launch.variables(ORIGIN, tmp_path).values(), *launch.arguments(ORIGIN, tmp_path)]
    files = [file.read_text() for file in tmp_path.iterdir() if file.is_file()]
    assert ORIGIN in " ".join([*said, *files]) and "{" + "origin" not in " ".join([*said, *files])
    assert row["source"] and row["date"] and row["grade"] in ("measured", "documented", "assumed")
    assert row["upstream"] in [one["name"] for one in built_in_table("clients.toml")["upstreams"]]
