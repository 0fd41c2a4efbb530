"""A queue that is emptied."""


class Inbox:
    def drain(self):
        while len(self.messages) > 0:
            self.handle(self.messages.pop(0))
