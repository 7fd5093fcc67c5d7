"""What the grader, a template and a checker say to each other: a length, then JSON."""

import json
import struct


def receive(stream) -> dict | None:
    """Read one message, None at the end."""
    text = whole(stream)
    return None if text is None else json.loads(text)


def whole(stream) -> bytes | None:
    """Read one message as it came, None at the end."""
    head = _exactly(stream, 4)
    return _exactly(stream, struct.unpack(">I", head)[0]) if len(head) == 4 else None


def _exactly(stream, size: int) -> bytes:
    # By hand: a buffered stream would take the next message too.
    data = bytearray()
    while len(data) < size and (got := stream.read(size - len(data))):
        data += got
    return bytes(data)


def frame(message: dict) -> bytes:
    """Return a message as it is written.

    >>> frame({})
    b'\\x00\\x00\\x00\\x02{}'
    """
    text = json.dumps(message).encode()
    return struct.pack(">I", len(text)) + text


def send(stream, message: dict) -> None:
    """Write one message."""
    stream.write(frame(message))
    stream.flush()
