# SPDX-License-Identifier: Apache-2.0
"""Runs a function in several processes of the CPU, the ranks of one communicator, and collects what they return or
raise.

The processes are servers that run one function after another, each with a communicator of its own: rank r of any number
of ranks is process r, which is started when it is first needed, and again after a test has killed it. They are forked
from one process that has opened the library. Functions are named by module and name, arguments and results are pickled.
"""

import contextlib
import importlib
import multiprocessing
import multiprocessing.forkserver
import os
import pathlib
import shutil
import sys
import tempfile
import traceback
from multiprocessing.connection import wait
from unittest import mock

import baracuda as bk

CONTEXT = multiprocessing.get_context("forkserver")
# Limits that no test waits for. CI machines differ by a factor of four, and their load by more.
LIMIT = 300.0  # seconds for one function
TIMEOUT = 120.0  # seconds for one collective


class Failed(Exception):
    """A rank that ended without an answer."""


class Rank:
    """A process that answers."""

    def __init__(self, number):
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=serve, args=(theirs, number), daemon=True)
        self.process.start()
        theirs.close()

    def end(self):
        self.pipe.close()
        self.process.kill()
        self.process.join()


class Ranks:
    """Processes, started as needed, and a folder for their rendezvous."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="baracuda-test-"))
        self.number = 0
        self.ranks: list[Rank] = []
        start_server()

    def run(self, size, function, *arguments, **options):
        """The result of function(comm, *arguments) on each rank, or the exception that it raised, or Failed."""
        self.number += 1
        url = (self.folder / str(self.number)).as_uri()
        while len(self.ranks) < size:
            self.ranks.append(Rank(len(self.ranks)))
        for rank in range(size):
            if not self.ranks[rank].process.is_alive():
                self.renew(rank)
        called = self.ranks[:size]
        for rank in called:
            rank.pipe.send((function.__module__, function.__qualname__, size, url, arguments, options))
        found = [received(rank) for rank in called]
        for rank, each in enumerate(found):
            if isinstance(each, Failed):
                self.renew(rank)
        shutil.rmtree(self.folder / str(self.number), ignore_errors=True)
        return found

    def renew(self, rank):
        self.ranks[rank].end()
        self.ranks[rank] = Rank(rank)

    def end(self):
        while self.ranks:
            self.ranks.pop().end()
        shutil.rmtree(self.folder, ignore_errors=True)


def received(rank):
    """The answer of a rank. One that cannot be read is the error of reading it."""
    if not wait([rank.pipe], LIMIT):
        return Failed(f"no answer within {LIMIT:g} s")
    try:
        return rank.pipe.recv()
    except (EOFError, ConnectionResetError):
        return Failed("died")
    except Exception as error:
        return error


def start_server():
    """Start the process that ranks are forked from. Each rank has one thread of OpenMP: there are more ranks than
    cores.
    """
    CONTEXT.set_forkserver_preload(["distributed.preloaded"])
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    with mock.patch.dict(os.environ, environment):
        multiprocessing.forkserver.ensure_running()


def serve(pipe, rank):
    while True:
        try:
            module, name, size, url, arguments, options = pipe.recv()
        except EOFError:
            return
        pipe.send(answer(module, name, rank, size, url, arguments, options))


def answer(module, name, rank, size, url, arguments, options):
    try:
        function = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        comm = bk.distributed.init(rank=rank, size=size, rendezvous=url, **{"timeout": TIMEOUT, **options})
        with contextlib.closing(comm):
            return function(comm, *arguments)
    except Exception as error:
        error.add_note(traceback.format_exc()) if hasattr(error, "add_note") else None
        return error


_alive: list[Ranks] = []


def run(size, function, *arguments, **options):
    """The results of all ranks; an exception of a rank is raised here."""
    found = outcomes(size, function, *arguments, **options)
    for rank, each in enumerate(found):
        if isinstance(each, Exception):
            raise AssertionError(f"rank {rank}: {each!r} {getattr(each, '__notes__', '')}") from each
    return found


def outcomes(size, function, *arguments, **options):
    """Results, and exceptions as objects."""
    if not _alive:
        _alive.append(Ranks())
    return _alive[0].run(size, function, *arguments, **options)


def end_all():
    while _alive:
        _alive.pop().end()
