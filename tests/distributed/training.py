# SPDX-License-Identifier: Apache-2.0
"""A small language model that ranks train together."""

import os
import pathlib

import numpy as np

import baracuda as bk
from baracuda.demo.checkpoint import load, save
from baracuda.demo.parameters import Parameters
from baracuda.demo.tokenizer import Tokenizer
from baracuda.demo.training import Schedule, Trainer
from baracuda.distributed.mesh import Layout, Mesh
from demo import small

CONFIG = small.CONFIG.__class__(vocabulary=48, context=16, layers=3, width=16, heads=4, kv_heads=2, hidden=12)
STEPS = 6


def trainer(library, mesh=None, dtype=bk.f32, steps=STEPS, **changes):
    p = Parameters(CONFIG, dtype, library, has_gradients=True, mesh=mesh)
    p.initialise(4)
    text = small.text() % CONFIG.vocabulary
    return Trainer(p, Schedule(steps, **{"batch": 4, "length": 16, "warmup": 3, "rate": 0.02} | changes), text)


def alone(**changes):
    """Losses of one rank."""
    return small.run(trainer(bk.default_library(), **changes), changes.get("steps", STEPS))


def run_to_the_end(comm, layout, changes):
    """The losses of all steps, read once."""
    made = trainer(comm.library, Mesh(comm, Layout(**layout)), **changes)
    for _ in range(made.schedule.steps):
        made.run_step()
    return made.losses_from(0)


def losses(comm, layout, changes):
    mesh = Mesh(comm, Layout(**layout))
    made = trainer(comm.library, mesh, **changes)
    found = small.run(made, STEPS)
    np.testing.assert_allclose(made.losses_from(0), found, rtol=1e-6)
    digest = {name: x.tobytes() for name, x in ((name, made.p.ranks.sharded.read(name)) for name in made.p.values)}
    return found, digest


def largest_difference(one, other):
    return float(np.max(np.abs(np.array(one) - np.array(other))))


def saved(comm, layout, folder, steps, changes):
    """Train some steps and save; the losses."""
    made = trainer(comm.library, Mesh(comm, Layout(**layout)), **changes)
    found = small.run(made, steps)
    save(pathlib.Path(folder), made, Tokenizer([(65, 66)]), found)
    return found


def resumed(comm, layout, folder, changes):
    """Go on from the last whole checkpoint."""
    made = trainer(comm.library, Mesh(comm, Layout(**layout)), **changes)
    found = load(pathlib.Path(folder))
    found.restore(made)
    return found.losses + small.run(made, STEPS - found.step)


def dies_while_saving(comm, layout, folder, changes):
    """Rank 1 dies before it has written its part of a second checkpoint."""
    made = trainer(comm.library, Mesh(comm, Layout(**layout)), **changes)
    small.run(made, 2)
    save(pathlib.Path(folder), made, Tokenizer([(65, 66)]), [0.0, 0.0])
    small.run(made, 1)
    if comm.rank == 1:
        os._exit(1)
    try:
        save(pathlib.Path(folder), made, Tokenizer([(65, 66)]), [0.0] * 3)
    except bk.distributed.RankFailedError:
        return "RankFailedError"
