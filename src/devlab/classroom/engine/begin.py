"""The first thing that `devlab grade` does: PyTorch is being imported while all else still is."""

import argparse
import contextlib
import os
import sys

from devlab.classroom.engine.family import Family

MOST_AT_ONCE = 64  # jobs for which sockets are opened before it is known whether there is so much to do


def run(arguments: argparse.Namespace) -> int:
    """Grade as the command line says; return 0 where every submission was graded."""
    jobs = arguments.jobs or (len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count())
    early = sys.platform == "linux" and arguments.dask is None and 1 <= jobs <= MOST_AT_ONCE
    with contextlib.closing(Family(jobs)) if early else contextlib.nullcontext() as first:
        from devlab.classroom.engine import command  # here, since it takes longer than to start a process

        return command.run(arguments, max(jobs, 1), first)
