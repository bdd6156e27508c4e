# SPDX-License-Identifier: Apache-2.0
"""Runs a function in several processes of the CPU, the ranks of one communicator, and collects what they return or
raise.

The ranks are started once for each number of them, as servers that run one function after another, each with a
communicator of its own; a test that kills a rank starts new ones. Functions are named by module and name, arguments and
results are pickled.
"""

import contextlib
import importlib
import multiprocessing
import os
import pathlib
import tempfile
import traceback

import baracuda as bk

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["baracuda.demo.train", "distributed.ranks", "distributed.layers", "distributed.training"]
)
LIMIT = 60.0  # seconds for one function


class Failed(Exception):
    """A rank that ended without an answer."""


class Ranks:
    def __init__(self, size):
        self.size = size
        self.number = 0
        self.folder = tempfile.mkdtemp(prefix="baracuda-test-")
        self.pipes, self.processes = [], []
        threads = str(max(1, (os.cpu_count() or 1) // size))
        for rank in range(size):
            ours, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=serve, args=(theirs, rank, size, threads), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, function, *arguments, **options):
        """What each rank returns, or the exception that it raised, or Failed; of function(comm, *arguments)."""
        self.number += 1
        url = pathlib.Path(self.folder, str(self.number)).as_uri()
        for pipe in self.pipes:
            pipe.send((function.__module__, function.__qualname__, url, arguments, options))
        found = []
        for pipe in self.pipes:
            try:
                found.append(pipe.recv() if pipe.poll(LIMIT) else Failed("no answer"))
            except EOFError:
                found.append(Failed("died"))
            except Exception:  # an answer that cannot be read: the pipes of the others have answers left
                self.end()
                raise
        if any(isinstance(each, Failed) for each in found):
            self.end()
        return found

    @property
    def is_alive(self):
        return all(process.is_alive() for process in self.processes)

    def end(self):
        for process in self.processes:
            process.kill()
            process.join()


def serve(pipe, rank, size, threads):
    os.environ["OMP_NUM_THREADS"] = threads
    os.environ["OMP_WAIT_POLICY"] = "passive"
    while True:
        try:
            module, name, url, arguments, options = pipe.recv()
        except EOFError:
            return
        pipe.send(answer(module, name, rank, size, url, arguments, options))


def answer(module, name, rank, size, url, arguments, options):
    try:
        function = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        settings = {"timeout": 20.0, **options}
        comm = bk.distributed.init(rank=rank, size=size, rendezvous=url, **settings)
        with contextlib.closing(comm):
            return function(comm, *arguments)
    except Exception as error:
        error.add_note(traceback.format_exc()) if hasattr(error, "add_note") else None
        return error


_alive: dict[int, Ranks] = {}


def run(size, function, *arguments, **options):
    """The results of all ranks; an exception of a rank is raised here."""
    found = outcomes(size, function, *arguments, **options)
    for rank, each in enumerate(found):
        if isinstance(each, Exception):
            raise AssertionError(f"rank {rank}: {each!r} {getattr(each, '__notes__', '')}") from each
    return found


def outcomes(size, function, *arguments, **options):
    """Results, and exceptions as objects."""
    ranks = _alive.get(size)
    if ranks is None or not ranks.is_alive:
        ranks = _alive[size] = Ranks(size)
    return ranks.run(function, *arguments, **options)


def end_all():
    while _alive:
        _alive.popitem()[1].end()
