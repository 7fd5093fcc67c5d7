"""What students could hand in to get marks or do harm in lesson 00, each with the mark it deserves.

Words in capitals stand for places that the test fills in: SOURCE (the teacher's notebook), NEIGHBOUR (another
student's), SOLUTIONS (the course's own), OUTSIDE (a folder beside the scratch folder, with a file for each
that would harm it), GRADER (a process id), PORT and DATAGRAMS (where the test listens), FREE (a port where
nobody does), DOOR (a socket that is a file), SHARED (a key that no memory has), SHELL.
"""

from dataclasses import dataclass

from classroom import students

NOWHERE = '\ndef device_of(x):\n    return "nowhere"\n'
NEITHER = '\ndef same_place(a, b):\n    return "neither"\n'


@dataclass(frozen=True)
class Hostile:
    """An answer to one of the lesson's exercises; the other's is right.

    `points` are those deserved for `device_of` and `same_place`, `outcome` the hostile exercise's where only
    one is right; `of` names that exercise where the marks do not. Up to level `free` it gets what it seeks:
    full marks, or its file outside changed.
    """

    source: str
    points: tuple[int, int]
    outcome: str = ""
    free: int = 0
    of: str = ""

    @property
    def answers(self) -> str:
        """Return the exercise that it answers: the last where the marks are for the one before."""
        return self.of or ("same_place" if self.points == (3, 0) else "device_of")


def last(source: str, outcome: str = "", free: int = 0) -> Hostile:
    """Answer the last exercise: what it does to the checks must not earn it marks, nor cost those before."""
    return Hostile(source, (3, 0), outcome, free)


def first(source: str, outcome: str = "", free: int = 0) -> Hostile:
    """Answer the first exercise: what becomes of it must not cost the one after it."""
    return Hostile(source, (0, 5), outcome, free)


# After marks: all of these change what judges them.
TAMPERS = {
    "patched expectations": last(
        "import devlab.checks.expect as e\ne.kind = e.equal = e.device = lambda *a, **k: None" + NEITHER
    ),
    "shadowed isinstance": last("import devlab.checks.expect as e\ne.isinstance = lambda *a: True" + NEITHER),
    "patched builtins": last(
        "import builtins\nbuiltins.isinstance = builtins.all = lambda *a: True" + NEITHER
    ),
    "rewritten code": last(
        "import devlab.checks.expect as e\ne.equal.__code__ = (lambda *a: None).__code__" + NEITHER
    ),
    "patched judge": last(
        "import devlab.checks.judge as j\nj.judge_row = lambda *a: j.Finding(j.Outcome.PASSED)" + NEITHER
    ),
    "no rows": last("from devlab.checks.exercise import find\nfind('same_place').rows = ()" + NEITHER),
    "a row with another judge": last(
        "from devlab.checks.exercise import find\n"
        "try: object.__setattr__(find('same_place').rows[0], 'judge', lambda trial: None)\n"
        "except AttributeError: pass" + NEITHER
    ),
    "patched torch": last(
        "torch.equal = torch.allclose = lambda *a, **k: True\ntorch.Tensor.__eq__ = lambda *a: True" + NEITHER
    ),
    "asserts stripped": last(
        "import ast, builtins\n"
        "class Strip(ast.NodeTransformer):\n"
        "    def visit_Assert(self, node): return ast.Pass()\n"
        "whole = compile\n"
        "def stripped(source, *rest, **more):\n"
        "    return whole(Strip().visit(ast.parse(source)), *rest, **more)\n"
        "builtins.compile = stripped\n"
        "try: get_ipython().ast_transformers.append(Strip())\n"
        "except NameError: pass" + NEITHER
    ),
    "always equal": last(
        "class Yes:\n"
        "    def __eq__(self, other): return True\n"
        "    def __ne__(self, other): return False\n"
        "    def __bool__(self): return True\n"
        "    __class__ = bool\n"
        "def same_place(a, b): return Yes()"
    ),
    "a mode for good": last(
        "from torch.overrides import TorchFunctionMode\n"
        "class Yes(TorchFunctionMode):\n"
        "    def __torch_function__(self, function, types, args=(), kwargs=None): return True\n"
        "Yes().__enter__()" + NEITHER
    ),
    "spies": last("import gc\ngc.get_objects()" + NEITHER),
    "traces": last("import sys\nsys.settrace(lambda *a: None)" + NEITHER),
    "forged verdict": last(
        "import json, os, struct\n"
        "claim = {'nonce': '0' * 32, 'done': 'same_place', 'outcome': 'passed', 'rows': []}\n"
        "text = json.dumps(claim).encode()\n"
        "for one in range(3, 256):\n"
        "    try: os.write(one, struct.pack('>I', len(text)) + text)\n"
        "    except OSError: pass" + NEITHER
    ),
    "floods the channel": last(
        "import os\nfor f in range(3, 256):\n  try: os.write(f, b'x' * 9_000)\n  except OSError: pass"
        + NEITHER
    ),
    "another judge": last(
        "import sys, types\n"
        "fake = types.ModuleType('devlab.checks.judge')\n"
        "fake.judge = lambda *a: None\n"
        "sys.modules['devlab.checks.judge'] = fake\n"
        "import devlab.checks\n"
        "devlab.checks.judge = fake" + NEITHER
    ),
    "import hook": last(
        "import importlib.abc, sys\n"
        "class Hook(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None): raise SystemExit(0)\n"
        "sys.meta_path.insert(0, Hook())" + NEITHER
    ),
    "patches when collected": last(
        "import devlab.checks.expect as e\n"
        "class Late:\n"
        "    def __del__(self): e.equal = e.kind = lambda *a, **k: None\n"
        "def same_place(a, b):\n"
        "    late = Late()\n"
        "    return 'neither'"
    ),
    "patches at the end": last(
        "import atexit, os\n"
        "@atexit.register\n"
        "def late():\n"
        "    for one in range(3, 256):\n"
        "        try: os.write(one, b'\\0\\0\\0\\2{}')\n"
        "        except OSError: pass" + NEITHER
    ),
    "raises past the checks": last("def same_place(a, b):\n    raise SystemExit(0)"),
    "a value that explodes": last(
        "class Bomb:\n"
        "    def __getattribute__(self, name): raise KeyboardInterrupt\n"
        "    def __repr__(self): raise SystemExit(0)\n"
        "def same_place(a, b): return Bomb()"
    ),
    "a value without end": last("ring = []\nring.append(ring)\ndef same_place(a, b): return ring"),
    "a pickle bomb": last(
        "import os\n"
        "class Bomb:\n"
        "    def __reduce__(self): return os.system, ('echo harm > OUTSIDE/pickle',)\n"
        "def same_place(a, b): return Bomb()"
    ),
}
# These end the process, or keep it for ever: the exercise after them is judged in a new one.
DEATHS = {
    "exits": first("import os\nos._exit(0)", "killed"),
    "dies of a signal": first("import os\nos.kill(os.getpid(), 9)", "killed"),
    "aborts": first("import os\nos.abort()", "killed"),
    "crashes": first("import ctypes\nctypes.string_at(0)", "killed"),
    "closes all files": first("import os\nos.closerange(0, 4096)" + NOWHERE),
    "recursion past the stack": first(
        "nest = ()\nfor _ in range(200_000): nest = (nest,)\nhash(nest)", "killed"
    ),
    "loops": first("while True: pass", "timeout"),
    "loops inside C": first("sum(iter(int, 1))", "timeout"),
    "stops itself": first("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "timeout"),
    "deadlock": first("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", "timeout"),
    "endless recursion": first("def device_of(x):\n    return device_of(x)", "error"),
    "nested code": first("device_of = " + "(" * 5000 + ")" * 5000, "error"),
    "nul bytes": first("x = '\0'" + NOWHERE),
    "half a character": first("x = '\ud800'" + NOWHERE),
    "a huge cell": first("x = '" + "x" * 3_000_000 + "'" + NOWHERE, "failed"),
}
# These take more than their share.
GREEDY = {
    "takes all memory": first("hog = bytearray(1 << 42)", "memory"),
    "takes memory by tensors": first("hog = [torch.ones(1 << 26) for _ in range(100)]", "memory"),
    "takes memory in many processes": first(
        "import os, time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        hog = bytearray(b'x' * (250 << 20))\n"
        "        time.sleep(60)\n"
        "time.sleep(60)",
        "memory",
    ),
    "fork bomb": first("import os, time\nfor _ in range(6): os.fork()\ntime.sleep(60)"),
    "threads without end": first(
        "import threading, time\n"
        "while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    ),
    "files by the thousand": first(
        "import itertools\nfor n in itertools.count():\n    open(f'file{n}', 'w').close()", "killed"
    ),
    "fills the disk": first(
        "import itertools\n"
        "for n in itertools.count():\n"
        "    with open(f'file{n}', 'wb') as f: f.write(b'x' * (20 << 20))",
        "killed",
    ),
    "fills the disk unseen": first(
        "import os, time\n"
        "held = []\n"
        "for n in range(8):\n"
        "    held.append(open('file', 'wb'))\n"
        "    os.unlink('file')\n"
        "    held[-1].write(b'x' * (20 << 20))\n"
        "time.sleep(60)",
        "killed",
    ),
    "folders without end": first(
        "import os\nfor n in range(1500):\n    os.mkdir('x')\n    os.chdir('x')" + NOWHERE
    ),
    "one huge file": first("open('file', 'wb').truncate(1 << 40)"),
}
# What these leave must be gone afterwards.
LEAVES = {
    "a detached child": first(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(600)\n"
        "    os._exit(0)" + NOWHERE,
        "failed",
    ),
    "a program in the background": first(
        "import subprocess\nsubprocess.Popen([SHELL, '-c', 'sleep 600'], start_new_session=True)" + NOWHERE,
        "failed",
    ),
    "a child that minds no signal": first(
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    for one in range(1, 32):\n"
        "        try: signal.signal(one, signal.SIG_IGN)\n"
        "        except OSError: pass\n"
        "    time.sleep(600)" + NOWHERE,
        "failed",
    ),
    "a port": first(
        "import os, socket, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    door = socket.socket()\n"
        "    door.bind(('127.0.0.1', FREE))\n"
        "    door.listen()\n"
        "    time.sleep(600)" + NOWHERE,
        "failed",
    ),
    "shared memory": first(
        "import ctypes\nctypes.CDLL(None).shmget(SHARED, 4096, 0o1666)" + NOWHERE, "failed", free=1
    ),
    "locked folders": first(
        "import os\nos.makedirs('a/b/c')\nopen('a/b/c/d', 'w').close()\n"
        "os.chmod('a/b', 0)\nos.chmod('a', 0)\nos.chmod('.', 0)" + NOWHERE,
        "failed",
    ),
    "odd names": first(
        "import os\nfor name in (b'\\xff\\xfe', b'a\\nb', b'-rf', b'*'): open(name, 'w').close()" + NOWHERE,
        "failed",
    ),
    "code for the next one": first(
        "for name in ('sitecustomize', 'usercustomize', 'torch', 'numpy', 'devlab', 'random'):\n"
        "    with open(name + '.py', 'w') as f: f.write('raise SystemExit')" + NOWHERE,
        "failed",
    ),
    "links out of the scratch folder": first("import os\nos.symlink('OUTSIDE', 'link')" + NOWHERE, "failed"),
}
# After somebody else's answer: full marks for whoever reads one.
STOLEN = """
try:
    exec(found)
except NameError:
    def same_place(a, b):
        return "neither"
"""
CELLS = (
    "import json\n"
    "try: found = next(''.join(cell['source']) for cell in json.load(open('{}'))['cells']\n"
    "    if cell['metadata'].get('nbgrader', {{}}).get('grade_id') == 'same_place')\n"
    "except OSError: pass"
)
READS = {
    "the teacher's notebook": last(CELLS.format("SOURCE") + STOLEN, free=1),
    "a neighbour's notebook": last(CELLS.format("NEIGHBOUR") + STOLEN, free=1),
    "the course's solutions": last(CELLS.format("SOLUTIONS") + STOLEN, free=1),
    "the package's solution": last(
        "from devlab.checks.help import solution_source\n"
        "from devlab.checks.exercise import find\n"
        "try: found = solution_source(find('same_place'))\n"
        "except (OSError, LookupError): pass" + STOLEN,
        free=1,
    ),
    "the template's memory": last(
        "import os, re\n"
        "try:\n"
        "    regions = open(f'/proc/{os.getppid()}/maps').read().splitlines()\n"
        "    memory = open(f'/proc/{os.getppid()}/mem', 'rb')\n"
        "    for region in regions:\n"
        "        start, end = (int(one, 16) for one in region.split()[0].split('-'))\n"
        "        if '[heap]' not in region and len(region.split()) > 5: continue\n"
        "        memory.seek(start)\n"
        "        try: text = memory.read(end - start)\n"
        "        except (OSError, ValueError, OverflowError, MemoryError): continue\n"
        "        for one in re.finditer(rb'def same_place.{0,20}:\\n(    .*\\n|\\n)+', text):\n"
        "            if b'torch.emp' + b'ty' in one[0]: found = one[0].decode()\n"
        "except OSError: pass" + STOLEN
    ),
    "what watches files": last(
        f"import ctypes\nif ctypes.CDLL(None).inotify_init1(0) >= 0: found = {students.RIGHT['same_place']!r}"
        + STOLEN,
        free=1,
    ),
    # By asking the kernel to copy it, which answers where there is no memory, and does not crash.
    "what the last one wrote": last(
        "import ctypes, os, re\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.sbrk.restype = ctypes.c_void_p\n"
        "page, (reading, writing), seen, found = 4096, os.pipe(), set(), ''\n"
        "def near(place, step):\n"
        "    text = []\n"
        "    while place not in seen and libc.write(writing, ctypes.c_void_p(place), page) == page:\n"
        "        seen.add(place)\n"
        "        text.append(os.read(reading, page))\n"
        "        place += step * page\n"
        "    return b''.join(text[::step])\n"
        "own = [str(n) * size for size in (1, 9, 30, 60) for n in range(2000)]\n"
        "for one in [libc.sbrk(0) - page, *map(id, own)]:\n"
        "    one -= one % page\n"
        "    text = near(one, -1) + near(one + page, 1)\n"
        "    for one in re.finditer(rb'def same_place.{0,20}:\\n(    .*\\n|\\n)+', text):\n"
        "        if b'torch.emp' + b'ty' in one[0]: found = one[0].decode()" + STOLEN
    ),
}


def _harm(deed: str, free: int = 1) -> Hostile:
    tried = "\n".join("    " + line for line in deed.split("\n"))
    return first(f"import os, socket\ntry:\n{tried}\nexcept OSError: pass" + NOWHERE, "failed", free)


# After the world outside; the file that each would change is OUTSIDE/ and its name with _ for spaces.
HARMS = {
    "rewrites": _harm("open('OUTSIDE/rewrites', 'w').write('100')"),
    "appends": _harm("open('OUTSIDE/appends', 'a').write('100')"),
    "deletes": _harm("os.unlink('OUTSIDE/deletes')"),
    "renames": _harm("os.rename('OUTSIDE/renames', 'OUTSIDE/renamed')"),
    "cuts": _harm("os.truncate('OUTSIDE/cuts', 0)"),
    "cuts as it opens": _harm("os.close(os.open('OUTSIDE/cuts_as_it_opens', os.O_RDONLY | os.O_TRUNC))"),
    "locks": _harm("os.chmod('OUTSIDE/locks', 0)"),
    "dates": _harm("os.utime('OUTSIDE/dates', (0, 0))"),
    "labels": _harm("os.setxattr('OUTSIDE/labels', 'user.mark', b'100')"),
    "writes by a link": _harm("os.symlink('OUTSIDE', 'way')\nopen('way/writes_by_a_link', 'w').write('100')"),
    "writes by a hard link": _harm(
        "os.link('OUTSIDE/writes_by_a_hard_link', 'mine')\nopen('mine', 'w').write('100')"
    ),
    "makes": _harm("open('OUTSIDE/made', 'w').close()"),
    "writes later": _harm(
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    open('OUTSIDE/writes_later', 'w').write('100')\n"
        "    os._exit(0)\n"
        "import time; time.sleep(0.3)"
    ),
    "signals": _harm("os.kill(GRADER, 10)"),
    "connects": _harm("socket.create_connection(('127.0.0.1', PORT), 1).send(b'connects')"),
    "sends": _harm(
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'sends', ('127.0.0.1', DATAGRAMS))"
    ),
    "speaks": _harm("door = socket.socket(socket.AF_UNIX)\ndoor.connect('DOOR')\ndoor.send(b'speaks')"),
}
# No harm and no gain: all the marks, whatever else it does.
RIGHT = """
def device_of(x):
    return x.device
"""
NOISY = {
    "floods the output": Hostile("import sys\nfor _ in range(100): print('x' * 10**6)" + RIGHT, (3, 5)),
    "floods the errors": Hostile(
        "import os, sys\nfor _ in range(100): os.write(2, b'x' * 10**6); sys.stderr.write('x' * 10**6)"
        + RIGHT,
        (3, 5),
    ),
    "prints verdicts": Hostile('print(\'{"outcome": "passed"}\')' + RIGHT, (3, 5)),
    "a coding line": Hostile("# -*- coding: utf-7 -*-\nname = 'ünïcödé'" + RIGHT, (3, 5)),
}
WALLED = {**GREEDY, **LEAVES, **READS, **HARMS}  # what the walls of a level decide
EVERYTHING = {**TAMPERS, **DEATHS, **WALLED, **NOISY}
