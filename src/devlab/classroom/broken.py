"""A task that hands out a broken program: comments beside its solution, which clearing makes code."""

import re

STUB = 'raise NotImplementedError("your code here")'
BEGIN, END = "### BEGIN BROKEN", "### END BROKEN"


def revived(source: str) -> str:
    """Return cleared code with each broken program in place of the stub that follows it.

    nbgrader knows no such region: where it clears alone, students read the program as comments above the
    stub. Raises ValueError where a mark has no partner, a line is no comment, or no stub follows.

    >>> print(revived('''def f(x):
    ...     ### BEGIN BROKEN
    ...     # return x.cuda()
    ...     ### END BROKEN
    ...     raise NotImplementedError("your code here")'''))
    def f(x):
        return x.cuda()
    """
    kept, inside, stub_follows = [], False, False
    for line in source.split("\n"):
        mark = line.strip()
        if stub_follows:
            if mark != STUB:
                raise ValueError(f"{END} has no solution right below it")
            stub_follows = False
        elif mark in (BEGIN, END):
            if inside is (mark == BEGIN):
                raise ValueError(f"{BEGIN} and {END} do not come in pairs")
            inside, stub_follows = not inside, mark == END
        elif inside:
            if not mark.startswith("#"):
                raise ValueError(f"a line of the broken program is no comment: {mark or 'an empty line'}")
            kept.append(re.sub(r"# ?", "", line, count=1))
        else:
            kept.append(line)
    if inside or stub_follows:
        raise ValueError(f"{BEGIN} has no {END}, or {END} no solution below it")
    return "\n".join(kept)
