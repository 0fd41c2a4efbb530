"""The system prompt made anew on resuming, and kept."""


def build_system_prompt(model):
    return f"You are an agent of {model}."


class Agent:
    def start(self, model):
        self.system = build_system_prompt(model)

    def resume_session(self, stored):
        self.messages = stored.messages
        self.system = build_system_prompt(stored.model)  # expect: CKS10


class Kept:
    def start(self, model):
        self.system = build_system_prompt(model)

    def resume_session(self, stored):
        self.messages, self.system = stored.messages, stored.system

    def restore_or_build_system_prompt(self, stored):
        self.system = stored or build_system_prompt(self.model)
