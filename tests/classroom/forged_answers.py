"""What students could hand in to hide results, forge messages, stop clocks, and use more than is seen.

Those that speak in their worker's place find what it speaks with in the frames below their own: `found`
returns what a name stands for there. Marks are those deserved, as in hostile_answers.py.
"""

from classroom.hostile_answers import NOWHERE, Hostile, first

FOUND = """
import json, os, sys, time
def found(name):
    frame = sys._getframe()
    while frame and name not in frame.f_locals:
        frame = frame.f_back
    return frame and frame.f_locals[name]
def rows(name, mark="passed"):
    from devlab.checks.exercise import find
    return [[row.label, dict.fromkeys(("cpu", "sim:0", "sim:1"), mark)] for row in find(name).rows]
def claim(name, calls="[]", **facts):
    passed = {"outcome": "passed", "headline": "passed", "rows": rows(name)}
    found("send")({"done": name} | passed | facts | {"calls": calls})
def claim_both(result, **facts):
    for name in ("device_of", "same_place"):
        claim(name, json.dumps([[{"of": name} | result] * 40] * 40), **facts)
    found("send")({"end": True})
def write(text):
    for one in range(3, 256):
        try: os.write(one, text)
        except OSError: pass
"""


def spoken(
    deed: str, outcome: str = "", points: tuple[int, int] = (0, 0), name: str = "device_of"
) -> Hostile:
    """Answer an exercise, and do something in the first call of it.

    A message that no worker sends costs all that is unfinished, which is both exercises.
    """
    lines = "".join(f"        {line}\n" for line in deed.split("\n"))
    right = {"device_of": "x[0].device", "same_place": "x[0] == x[1]"}[name]
    head = f"{FOUND}said = []\ndef {name}(*x):\n    if not said:\n        said.append(1)\n"
    return Hostile(f"{head}{lines}    return {right}\n", points, outcome, of=name)


def always(deed: str, points: tuple[int, int], outcome: str, gives: str = "x.device") -> Hostile:
    """Do something in each call of device_of, then return what it gives."""
    return Hostile(f"{FOUND}def device_of(x):\n    {deed}\n    return {gives}\n", points, outcome)


# After marks that are not to be looked into: what the checker cannot read, or is not shown, earns nothing.
UNREAD = {
    "hides its results": spoken('found("witness").left = 0', "error", (0, 5)),
    "hides each result": always('found("witness").left = 0', (0, 5), "error"),
    "forgets its results": always('found("witness").rows.clear()', (0, 5), "error"),
    "hides wrong results": always('found("witness").left = 0', (0, 5), "failed", "'nowhere'"),
    "keeps something else": always('found("entry")["gave"] = ["opaque", "device"]', (3, 5), "passed"),
    "opaque results": spoken('claim_both({"gave": ["opaque", "device"]})', "error"),
    "results in something opaque": spoken('claim_both({"gave": ["list", [["opaque", "device"]]]})', "error"),
    "errors of no known kind": spoken('claim_both({"raised": ["Nobodys", ""]})', "error"),
    "tensors that reach too far": spoken(
        'far = ["tensor", "torch.float32", [2], [1 << 40], "cpu", False, False, "Tensor", "AAAAAAAAAAA="]\n'
        'claim_both({"gave": far})',
        "error",
    ),
    "tensors of all memory": spoken(
        'vast = ["torch.float32", [1 << 20] * 3, [0] * 3, "cpu", False, False, "Tensor", "AAAAAA=="]\n'
        'claim_both({"gave": ["tensor", *vast]})',
        "error",
    ),
    "arrays of no kind": spoken('claim_both({"gave": ["array", "x", [3], [8], True, ""]})', "error"),
    "views of nothing": spoken(
        'claim_both({"gave": ["view", 99, "torch.float32", [1], [1], 0, False]})', "error"
    ),
    "arguments left opaque": spoken('claim_both({"gave": ["given", 0], "left": ["opaque", ""]})', "error"),
    "skips of its own": spoken(
        "for name in ('device_of', 'same_place'):\n"
        "    claim(name, outcome='skipped', headline='too little memory', rows=rows(name, 'skipped'))\n"
        "found('send')({'end': True})",
        "error",
    ),
    "skips in name alone": spoken("claim_both({}, outcome='skipped', headline='no accelerator')", "error"),
}
# After being graded anew each time, or after more tries: what is unfinished after such a message is lost.
UNFINISHED = {
    "ends early": spoken('found("send")({"end": True})', "error"),
    "ends early, and goes on": spoken('found("send")({"end": True})\ntime.sleep(60)', "error"),
    "a grader error of its own": spoken('claim("device_of", outcome="grader error")', "error"),
    "a grader error for the next one": spoken('claim("same_place", outcome="grader error")', "error"),
    "an outcome of its own": spoken('claim("device_of", outcome="splendid")', "error"),
    "begins nothing": spoken('found("send")({"begin": ""})', "error"),
    "begins what is not there": spoken('found("send")({"begin": "nobodys"})', "error"),
    "begins a number": spoken('found("send")({"begin": 7})', "error"),
    "begins again what is done": spoken(
        'found("send")({"begin": "device_of"})\nos._exit(0)', "error", name="same_place"
    ),
    "two verdicts": spoken('claim("device_of", outcome="failed", rows=[])', "error"),
    "a verdict on nothing": spoken('found("send")({"done": "", "outcome": "passed"})', "error"),
    "a message of nothing": spoken('found("send")({})', "error"),
    "details without end": spoken('claim("device_of", details=[["a", "b"]] * 9999)', "error"),
    "a headline without end": spoken('claim("device_of", headline="x" * 9999)', "error"),
    "passes without rows": spoken("claim_both({}, rows=[])", "error"),
    "half a character": spoken("claim_both({}, headline='\\ud800', details=[['\\udfff', 'x']])", "error"),
    "a message without end": spoken("write(bytes([255] * 4) + b'x')\ntime.sleep(60)", "error"),
    "no JSON": spoken("write(bytes([0, 0, 0, 2]) + b'{x')", "error"),
    "half a message": spoken("write(bytes([0, 0, 9, 9]) + b'{')\nos._exit(0)", "killed", (0, 5)),
}
# After more time than there is.
CLOCKS = {
    "begins by turns": spoken(
        "while True:\n"
        '    for name, wait in (("same_place", 0.1), ("device_of", 0.4)):\n'
        '        found("send")({"begin": name})\n'
        "        time.sleep(wait)",
        "timeout",
        (0, 5),
    ),
    "begins again and again": spoken(
        'while True:\n    found("send")({"begin": "device_of"})\n    time.sleep(0.01)', "timeout", (0, 5)
    ),
    "floods with beginnings": spoken('while True: found("send")({"begin": "device_of"})', "killed", (0, 5)),
    "says what it needs for ever": spoken(
        'while True:\n    found("send")({"own": {}})\n    time.sleep(0.01)', "timeout", (0, 5)
    ),
    "a thread that begins": spoken(
        "import threading\n"
        'send = found("send")\n'
        "def for_ever():\n"
        "    while True:\n"
        '        send({"begin": "device_of"})\n'
        "        time.sleep(0.05)\n"
        "threading.Thread(target=for_ever, daemon=True).start()\n"
        "time.sleep(60)",
        "timeout",
        (0, 5),
    ),
    "a letter at a time": spoken("while True:\n    write(b'\\0')\n    time.sleep(0.2)", "error"),
}
SHARED = "import mmap, os, time\n"
# Takes of memory in processes of their own, since one alone may not map so much.
FORKED = (
    SHARED + "for _ in range(4):\n    if os.fork() == 0:\n        {}\n        time.sleep(60)\ntime.sleep(60)"
)
DELETED = (
    SHARED + "import socket\n"
    "one, other = socket.socketpair()\n"
    "other.settimeout(1)\n"
    "for n in range(8):\n"
    "    file = open(f'file{{n}}', 'w+b')\n"
    "    os.unlink(file.name)\n"
    "    file.write(b'x' * (20 << 20))\n"
    "    file.flush()\n"
    "    {}\n"
    "    file.close()\n"
    "time.sleep(60)"
)
# After more memory and disk than there is, out of sight. Walls below level 2 refuse none of it.
HIDDEN = {
    "shared memory let go": first(
        FORKED.format("m = mmap.mmap(-1, 250 << 20); m.write(b'x' * len(m)); m.madvise(mmap.MADV_DONTNEED)"),
        "memory",
    ),
    "shared memory held": first(
        FORKED.format("m = mmap.mmap(-1, 250 << 20); m.write(b'x' * len(m))"), "memory"
    ),
    "shared memory of one for all": first(
        SHARED + "held = [mmap.mmap(-1, 100 << 20) for _ in range(4)]\n"
        "for one in held: one.write(b'x' * len(one)); one.madvise(mmap.MADV_DONTNEED)\n"
        "if os.fork() == 0:\n"
        "    held = [one.close() for one in held]\n"
        "    held = [mmap.mmap(-1, 100 << 20) for _ in range(4)]\n"
        "    for one in held: one.write(b'x' * len(one)); one.madvise(mmap.MADV_DONTNEED)\n"
        "time.sleep(60)",
        "memory",
    ),
    "shared memory by a device": first(
        FORKED.format(
            "f = open('/dev/zero', 'r+b'); m = mmap.mmap(f.fileno(), 250 << 20); m.write(b'x' * len(m))"
        )
    ),
    "memory files": first(
        "import os, time\n"
        "for n in range(30): os.write(os.memfd_create('m'), b'x' * (20 << 20))\n"
        "time.sleep(60)"
    ),
    "memory files between processes": first(
        "import os, socket\n"
        "one, other = socket.socketpair()\n"
        "for n in range(30):\n"
        "    m = os.memfd_create('m')\n"
        "    os.write(m, b'x' * (20 << 20))\n"
        "    socket.send_fds(one, [b'x'], [m])\n"
        "    os.close(m)" + NOWHERE
    ),
    "deleted files between processes": first(DELETED.format("socket.send_fds(one, [b'x'], [file.fileno()])")),
    "deleted files in memory": first(
        DELETED.format("m = mmap.mmap(file.fileno(), 0); one = [one, m]"), "killed"
    ),
    "deleted files held": first(DELETED.format("one = [one, os.dup(file.fileno())]"), "killed"),
    "a folder that cannot be listed": first(
        SHARED + "os.mkdir('x', 0o300)\n"
        "for n in range(8): open(f'x/{n}', 'wb').write(b'x' * (20 << 20))\n"
        "time.sleep(60)",
        "killed",
    ),
    "a process that cannot be looked at": first(
        SHARED + "import ctypes\n"
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
        "held = []\n"
        "for n in range(8):\n"
        "    held.append(open('file', 'wb'))\n"
        "    os.unlink('file')\n"
        "    held[-1].write(b'x' * (20 << 20))\n"
        "time.sleep(60)",
        "killed",
    ),
    "many sockets": first(
        "import socket, time\nheld = [socket.socketpair() for _ in range(60)]\ntime.sleep(60)", "killed"
    ),
    "large buffers in sockets": first(
        "import socket, time\n"
        "held = [socket.socketpair() for _ in range(60)]\n"
        "for one, _ in held:\n"
        "    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)\n"
        "    one.setblocking(False)\n"
        "    try:\n"
        "        while True: one.send(b'x' * 65536)\n"
        "    except BlockingIOError: pass\n"
        "time.sleep(60)"
    ),
    "many small deleted files": first(
        SHARED + "held = []\n"
        "for n in range(200):\n"
        "    held.append(open('file', 'wb', buffering=0))\n"
        "    os.unlink('file')\n"
        "    held[-1].write(b'x' * (1 << 20))\n"
        "time.sleep(60)",
        "killed",
    ),
}
KINDS = {"unread": UNREAD, "unfinished": UNFINISHED, "clocks": CLOCKS, "hidden": HIDDEN}
FORGED = {name: one for kind in KINDS.values() for name, one in kind.items()}
