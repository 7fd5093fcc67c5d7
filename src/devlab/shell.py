"""Runs a cell as IPython does: its magics, commands and values mean here what they mean there.

The rules of the text are those of IPython.core.inputtransformer2. A test holds them to IPython's own.
"""

import __future__

import ast
import asyncio
import contextlib
import inspect
import io
import linecache
import os
import re
import shlex
import subprocess
import textwrap
import timeit
import types
from collections.abc import Iterator

# What stands before lines that were copied from an interpreter.
PROMPT = re.compile(r"^(?:>>>(?: |$)|\.\.\.(?: |$)|(?:In \[\d+\]: )|\s*\.{3,}: ?)")
FIRST_PROMPT = re.compile(r"^(?:>>>(?: |$)|In \[\d+\]: )")
OUTSIDE = re.compile(r"#.*|'''|\"\"\"|['\"]|[()\[\]{}]")
ENDS = {quote: re.compile(rf"(?:\\.|[^\\])*?{quote}", re.DOTALL) for quote in ("'", '"', "'''", '"""')}
ASSIGNED = re.compile(r"^([^=!#'\"]*[^-+*/%&|^@<>:=!#'\"]=\s*)(%(?=\w)|!)(.*)$", re.DOTALL)
HELP = re.compile(r"(%{0,2}(?!\d)[\w*]+(?:\.(?!\d)[\w*]+|\[-?[0-9]+\])*)(\?\??)$")
SHELL = "get_ipython()"


def python_of(source: str) -> str:
    """Return a cell in Python: with calls of IPython's shell for what only IPython understands.

    >>> print(python_of("%pwd\\nfiles = !ls -l\\ntorch.ones?\\nx = (7\\n% 5)"), end="")
    get_ipython().run_line_magic('pwd', '')
    files = get_ipython().getoutput('ls -l')
    get_ipython().run_line_magic('pinfo', 'torch.ones')
    x = (7
    % 5)
    """
    source = source.lstrip("\n") + "\n" * (not source.endswith("\n"))
    lines = textwrap.dedent(source).splitlines(keepends=True)
    if lines and FIRST_PROMPT.match(lines[0]):
        lines = [PROMPT.sub("", line, count=1) for line in lines]
    if lines and lines[0].startswith("%%") and not re.match(r"%%\w+\?", lines[0]):
        name, _, options = lines[0][2:].rstrip().partition(" ")
        return f"{SHELL}.run_cell_magic({name!r}, {options!r}, {''.join(lines[1:])!r})\n"
    made, depth, quote, goes_on = [], 0, "", False
    while lines:
        line = lines.pop(0)
        if not (depth or quote or goes_on):
            if special := SPECIAL.match(line) or _find_assigned(line):
                while line.endswith("\\\n") and lines:  # a magic goes on in the next line
                    line = f"{line.rstrip()[:-1]} {lines.pop(0)}"
                before, text = line[: special.end(1)], line[special.end(1) :].rstrip()
                line = f"{before}{_call(text, bool(before.strip()))}\n"
            elif line.rstrip().endswith("?") and "#" not in line and (asked := HELP.search(line.rstrip())):
                before = line[: len(line) - len(line.lstrip())]
                line = f"{before}{_help(*asked.groups())}\n"
        made.append(line)
        depth, quote = _scan(line, depth, quote)
        goes_on = line.endswith("\\\n")
    return "".join(made)


SPECIAL = re.compile(r"^([ \t]*)[%!?,;/]")


def _find_assigned(line: str) -> re.Match | None:
    found = ASSIGNED.match(line)
    return found if found and not _scan(found[1], 0, "")[0] else None


def _call(text: str, assigned: bool) -> str:
    """Return the call that a line with a mark before it stands for."""
    asked = HELP.search(text)
    if asked and not assigned and text[0] in "%?":
        return _help(*asked.groups())
    mark = text[:2] if text[:2] in ("!!", "??") else text[0]
    name, _, rest = text[len(mark) :].partition(" ")
    if mark == "%":
        return f"{SHELL}.run_line_magic({name!r}, {rest!r})"
    if mark in ("!", "!!"):
        what = "getoutput" if assigned or mark == "!!" else "system"
        return f"{SHELL}.{what}({text[len(mark) :]!r})"
    if mark in ("?", "??"):
        return _help(text[len(mark) :], mark) if name else f"{SHELL}.show_usage()"
    several = ", ".join(rest.split()) if mark == "/" else '", "'.join(rest.split()) if mark == "," else rest
    return f"{name}({several})" if mark == "/" else f'{name}("{several}")'


def _help(target: str, mark: str) -> str:
    kind = "pinfo2" if mark == "??" else "psearch" if "*" in target else "pinfo"
    return f"{SHELL}.run_line_magic({kind!r}, {target!r})"


def _scan(line: str, depth: int, quote: str) -> tuple[int, str]:
    """Return how many brackets are open after a line, and which quote is."""
    at = 0
    while True:
        if quote:
            end = ENDS[quote].match(line, at)
            if not end:
                return depth, quote if len(quote) == 3 or line.endswith("\\\n") else ""
            at = end.end()
        found = OUTSIDE.search(line, at)
        if not found:
            return depth, ""
        piece, at = found[0], found.end()
        quote = piece if piece[0] in "'\"" else ""
        depth = max(0, depth + (piece in "([{") - (piece in ")]}"))


# The lines that a command printed; `n` is all of them as one text.
Lines = type("Lines", (list,), {"n": property("\n".join)})
# What these do is shown and not run, or is no work of Python's.
SHOWN = frozenset({"html", "HTML", "latex", "markdown", "javascript", "js", "svg", "SVG", "perl", "ruby"})
TIMED = frozenset({"time", "timeit", "prun", "memit"})
COMMANDS = frozenset({"bash", "sh", "script", "!", "sx", "system"})


class Shell:
    """Stands for IPython's shell, with a notebook of its own: what it only shows is left out.

    A cell magic that is not known has its cell run, as most of them do.

    >>> shell = Shell()
    >>> shell.run("here = %pwd", "<cell 1>")
    >>> shell.notebook.here == os.getcwd()
    True
    """

    def __init__(self, notebook: types.ModuleType | None = None):
        self.notebook = notebook or types.ModuleType("__main__")
        self.user_ns = vars(self.notebook)
        self.user_ns |= {"get_ipython": lambda: self, "display": lambda *_, **__: None}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __getattr__(self, name: str):
        return lambda *_, **__: None

    def system(self, command: str) -> None:
        """Run a command."""
        self.getoutput(command)

    def getoutput(self, command: str) -> Lines:
        """Run a command and return the lines that it printed."""
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            said = subprocess.run(self._expand(command), shell=True, check=False, **both).stdout
        except OSError as problem:  # walls may refuse programs, and IPython raises for no command
            said = str(problem).encode()
        return Lines(said.decode(errors="replace").splitlines())

    def run_line_magic(self, name: str, line: str, *_: object) -> object:
        """Do what a magic in a line does, and return its value."""
        line = line if name in TIMED else self._expand(line)
        if name == "pwd":
            return os.getcwd()
        if name == "cd":
            os.chdir(os.path.expanduser(line.strip("'\" ") or "~"))
        elif name in ("env", "set_env"):
            return self._environ(line)
        elif name in COMMANDS:
            return self.getoutput(line)
        elif name == "run":
            with open(shlex.split(line)[0], encoding="utf-8") as stream:
                self.run(stream.read(), line)
        elif name == "timeit":
            return self._timeit(line, "")
        elif name in TIMED:
            return self.run(_options(line)[1], "<magic>")
        return None

    def run_cell_magic(self, name: str, line: str, cell: str) -> object:
        """Do what a magic of a cell does, and return its value."""
        if name in COMMANDS:
            return self.getoutput(cell)
        if name in ("writefile", "file"):
            flags, path = _options(line)
            with open(os.path.expanduser(path.strip("'\"")), "a" if "-a" in flags else "w") as stream:
                stream.write(cell)
        elif name == "timeit":
            return self._timeit(line, cell)
        elif name == "capture":
            said = types.SimpleNamespace(stdout="", stderr="", outputs=[], show=lambda: None)
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
                self.run(cell, "<magic>")
            said.stdout = out.getvalue()
            if kept := [word for word in line.split() if not word.startswith("-")]:
                self.user_ns[kept[0]] = said
        elif name not in SHOWN:
            return self.run(cell, "<magic>")
        return None

    def _expand(self, text: str) -> str:
        """Fill in `{expressions}` and `$names` of the notebook."""

        def value(found: re.Match) -> str:
            try:
                return str(eval(found[1] or found[2], self.user_ns))
            except Exception:  # as IPython leaves it
                return found[0]

        return re.sub(r"\{([^{}]+)\}|\$([A-Za-z_]\w*)", value, text)

    def _environ(self, line: str) -> object:
        name, *value = re.split(r"[=\s]+", line.strip(), maxsplit=1)
        os.environ |= {name: value[0]} if value else {}
        return os.environ.get(name) if name else dict(os.environ)

    def _timeit(self, line: str, cell: str) -> object:
        """Time a statement: once, unless the line asks for more."""
        flags, statement = _options(line)
        setup, statement = (statement, cell) if cell else ("", statement)
        asked = {flag[:2]: flag[2:] for flag in flags}
        loops, repeat = int(asked.get("-n") or 1), int(asked.get("-r") or 1)
        timer = timeit.Timer(python_of(statement), python_of(setup), globals=self.user_ns)
        runs = [seconds / loops for seconds in timer.repeat(repeat, loops)]
        facts = {"loops": loops, "repeat": repeat, "timings": runs, "all_runs": [one * loops for one in runs]}
        facts |= {"best": min(runs), "worst": max(runs), "average": sum(runs) / len(runs), "stdev": 0.0}
        return types.SimpleNamespace(**facts) if "-o" in asked else None

    def run(self, source: str, name: str) -> object:
        """Run a cell and return the value that it ends in; `name` is what tracebacks call it."""
        if "async" in source or "await" in source:
            self._loop = self._loop or asyncio.new_event_loop()
        tree = self._parse(source, name)
        parts: list[ast.AST] = [tree]
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
            parts.append(ast.Expression(tree.body.pop().value))
        flags, value = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | _future(self.notebook), None
        for part, mode in zip(parts, ("exec", "eval"), strict=False):
            value = self._evaluate(compile(part, name, mode, flags, dont_inherit=True))
        if value is not None:
            self.user_ns["_"] = value
        return value

    def _parse(self, source: str, name: str) -> ast.Module:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | _future(self.notebook)
        try:
            return compile(source, name, "exec", flags, dont_inherit=True)
        except SyntaxError:
            source = python_of(source)
            return compile(source, name, "exec", flags, dont_inherit=True)
        finally:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)

    def _evaluate(self, code: types.CodeType) -> object:
        """Run code as in a notebook, where a loop runs, and its tasks go on from cell to cell."""
        loop = self._loop
        with _as_running(loop):
            value = eval(code, self.user_ns)
        if code.co_flags & inspect.CO_COROUTINE:
            with _as_running(None):  # the cell may stand in a magic of another cell
                value = loop.run_until_complete(value)
        if loop and not asyncio._get_running_loop() and (tasks := asyncio.all_tasks(loop)):
            loop.run_until_complete(asyncio.wait(tasks, timeout=0.1))
        return value


@contextlib.contextmanager
def _as_running(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


def _options(line: str) -> tuple[list[str], str]:
    """Return the options of a magic, and the rest of its line.

    >>> _options("-n 3 -o f(x) - 1")
    (['-n3', '-o'], 'f(x) - 1')
    """
    flags, rest = [], line.strip()
    while found := re.match(r"(-[nrpstD])\s*([\w.]+)(?:\s+|$)|(-\w|--[\w-]+)(?:\s+|$)", rest):
        flags.append(found[3] or found[1] + found[2])
        rest = rest[found.end() :]
    return flags, rest


def _future(notebook: types.ModuleType) -> int:
    """Return the compiler's flags for what earlier cells of the notebook imported from `__future__`."""
    flags = 0
    for value in list(vars(notebook).values()):
        flags |= value.compiler_flag if type(value) is __future__._Feature else 0
    return flags
