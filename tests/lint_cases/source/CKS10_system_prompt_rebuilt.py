"""The system prompt made anew on resuming, and kept."""


def build_system_prompt(model):
    return f"You are an agent of {model}."


def ask(client, skills, messages):
    system = "You know: " + ", ".join(set(skills))  # expect: CKS10
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_lines(client, skills, messages):
    known = {skill.name for skill in skills}  # expect: CKS10
    system = "You know:\n" + "\n".join(f"- {name}" for name in known)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_in_order(client, skills, messages):
    system = "You know: " + ", ".join(sorted(set(skills)))
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_how_many(client, skills, messages):
    system = f"You know {len(set(skills))} things."
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class Kept:
    def start(self, model):
        self.system = build_system_prompt(model)

    def resume_session(self, stored):
        self.messages, self.system = stored.messages, stored.system

    def restore_or_build_system_prompt(self, stored):
        self.system = stored or build_system_prompt(self.model)


def ask_sorted_in_place(client, skills, messages):
    known = list(set(skills))
    known.sort()
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system="You know " + ", ".join(known), messages=messages)


def resume(session):
    session.system = session.system or build_system_prompt(session.model)
    return session


def reload_session(session):
    if not session.system:
        session.system = build_system_prompt(session.model)
    return session


def restore(session):
    return session.system if session.system is not None else build_system_prompt(session.model)


LANGUAGES = {"python", "sql", "bash"}  # expect: CKS10
UNITS = ("metre", "second")


def ask_about_languages(client, messages):
    system = "You know: " + ", ".join(LANGUAGES)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_about_languages_in_order(client, messages):
    system = "You know: " + ", ".join(sorted(LANGUAGES)) + " in " + ", ".join(UNITS)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_about_some(client, messages, names):
    system = "You know: " + ", ".join(name for name in names if name in LANGUAGES)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)
