"""What git tells of the working folder in the system prompt, and where it is asked once or stays behind."""

import os
import subprocess
from functools import lru_cache
from pathlib import Path

import anthropic
import openai

client = anthropic.Anthropic()
gpt = openai.OpenAI()
INSTRUCTIONS = "You write code."
CACHED = {"model": "claude-opus-4-5", "max_tokens": 4096, "cache_control": {"type": "ephemeral"}}


def ask_with_status(history):
    status = subprocess.run(["git", "status", "--short"], capture_output=True, text=True).stdout  # expect: CKS04
    messages = [{"role": "system", "content": f"{INSTRUCTIONS}\n{status}"}, *history]
    return gpt.chat.completions.create(model="gpt-5", messages=messages)


def ask_with_diff(messages):
    changed = subprocess.check_output(["git", "diff", "--stat"], text=True)  # expect: CKS04
    return client.messages.create(system=INSTRUCTIONS + changed, messages=messages, **CACHED)


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout.strip()


def recent_commits():
    return subprocess.getoutput("git log --oneline -5")  # expect: CKS04


def ask_with_commits(messages):
    system = [{"type": "text", "text": INSTRUCTIONS}, {"type": "text", "text": recent_commits()}]
    return client.messages.create(system=system, messages=messages, **CACHED)


class Coder:
    def __init__(self):
        self.messages = []

    def environment(self):
        lines = os.popen("git status --porcelain").read()  # expect: CKS04
        return {"folder": os.getcwd(), "status": lines}

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        described = self.environment()
        system = f"{INSTRUCTIONS} Folder: {described['folder']}. Changed: {described['status']}"
        return client.messages.create(system=system, messages=self.messages, **CACHED)


def ask_in_a_loop(messages):
    while True:
        changed = subprocess.run("git diff HEAD", shell=True, capture_output=True, text=True).stdout  # expect: CKS04
        reply = client.messages.create(system=f"{INSTRUCTIONS}\n{changed}", messages=messages, **CACHED)
        messages.append({"role": "assistant", "content": reply.content})


def ask_with_status_at_the_end(messages, question):
    status = subprocess.run(["git", "status", "--short"], capture_output=True, text=True).stdout
    messages.append({"role": "user", "content": f"{question}\n{status}"})
    return client.messages.create(system=INSTRUCTIONS, messages=messages, **CACHED)


def ask_with_the_branch(messages):
    root = subprocess.check_output(["git", "rev-parse", "--show-toplevel"], text=True)
    return client.messages.create(system=f"{INSTRUCTIONS} Repository: {root}", messages=messages, **CACHED)


def ask_with_the_folder(messages):
    system = f"{INSTRUCTIONS} Folder: {os.getcwd()}. User: {os.environ['USER']}."
    return client.messages.create(system=system, messages=messages, **CACHED)


class Session:
    def __init__(self):
        self.status = subprocess.run(["git", "status", "--short"], capture_output=True, text=True).stdout

    def ask(self, messages):
        return client.messages.create(system=INSTRUCTIONS + self.status, messages=messages, **CACHED)


@lru_cache
def status_at_the_beginning():
    return subprocess.getoutput("git status --short")


def ask_with_the_status_at_the_beginning(messages):
    system = f"{INSTRUCTIONS} When we began: {status_at_the_beginning()}"
    return client.messages.create(system=system, messages=messages, **CACHED)


def commit_and_ask(messages):
    subprocess.run(["git", "commit", "--all", "--message", "Work"], check=True)
    return client.messages.create(system=INSTRUCTIONS, messages=messages, **CACHED)


def ask_about_the_diff(log):
    changed = subprocess.check_output(["git", "diff"], text=True)
    asked = [{"role": "user", "content": f"Write a commit message for:\n{changed}"}]
    log.debug("git status: %s", Path.cwd())
    return gpt.chat.completions.create(model="gpt-5", messages=asked)


def ask_with_a_command(messages):
    command = ["git", "diff"]
    text = subprocess.check_output(command, text=True)  # expect: CKS04
    return client.messages.create(system=text, messages=messages, **CACHED)
