"""What each thread is doing under watch: which logs are open in it, and what it was asked to read."""

import threading


class _State(threading.local):
    logs: tuple = ()
    cause: str | None = None


state = _State()
