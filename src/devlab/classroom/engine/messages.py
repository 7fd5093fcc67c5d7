"""What the grader and a template say to each other: a length, then JSON."""

import json
import struct


def receive(stream) -> dict | None:
    """Read one message, None at the end."""
    head = _exactly(stream, 4)
    return json.loads(_exactly(stream, struct.unpack(">I", head)[0])) if len(head) == 4 else None


def _exactly(stream, size: int) -> bytes:
    # By hand: a buffered stream would take the next message too.
    data = b""
    while len(data) < size and (got := stream.read(size - len(data))):
        data += got
    return data


def send(stream, message: dict) -> None:
    """Write one message."""
    text = json.dumps(message).encode()
    stream.write(struct.pack(">I", len(text)) + text)
    stream.flush()
