"""Hostile answers to `device_of` in lesson 00, each beside a right `same_place`."""

# By name: what was written, and the points that both exercises together deserve.
WRONG = '\ndef device_of(x):\n    return torch.device("cpu")\n'
LIAR = """
class Liar:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __class__ = torch.device
def device_of(x):
    return Liar()
"""
HOSTILE = {
    "patched kind": "import devlab.checks.expect as e\ne.kind = e.equal = e.device = lambda *a, **k: None"
    + WRONG,
    "shadowed isinstance": "import devlab.checks.expect as e\ne.isinstance = lambda *a: True" + WRONG,
    "rewritten code": "import devlab.checks.expect as e\ne.equal.__code__ = (lambda *a: None).__code__"
    + WRONG,
    "always equal": LIAR,
    "patched judge": "import devlab.checks.judge as j\nj._judge_row = lambda *a: j.Finding(j.Outcome.PASSED)"
    + WRONG,
    "no rows": "from devlab.checks.registry import find\nfind('device_of').rows.clear()" + WRONG,
    "exits": "import os\nos._exit(0)",
    "dies of a signal": "import os\nos.kill(os.getpid(), 9)",
    "crashes": "import faulthandler\nfaulthandler._sigsegv()",
    "loops": "while True: pass",
    "floods the channel": "import os\nfor f in range(3, 200):\n  try: os.write(f, b'x' * 9_000)\n"
    "  except OSError: pass" + WRONG,
    "reads the solution": "import pathlib\nopen(SOURCE).read()\n" + WRONG,
    "leaves a child": "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(600)" + WRONG,
    "takes all memory": "hog = bytearray(1 << 42)" + WRONG,
    "spies": "import gc\ngc.get_objects()" + WRONG,
}
