# SPDX-License-Identifier: Apache-2.0
"""The optimisers in float64, written from their papers and from the documentation of torch.optim."""

from typing import ClassVar

import numpy as np


class Reference:
    """One parameter. step(g) takes a gradient; `p` is the parameter after it, and `s` the states by torch's names."""

    def __init__(self, p, **options):
        self.p, self.s, self.t = np.array(p, np.float64), {}, 0
        self.o = {**self.defaults, **options}

    def state(self, name, value=0.0):
        return self.s.setdefault(name, np.full_like(self.p, value))

    def step(self, g):
        self.t += 1
        g = np.asarray(g, np.float64) * (-1 if self.o.get("maximize") else 1)
        self.p = self.p - self.update(g)

    def decayed(self, g):
        return g + self.o["weight_decay"] * self.p


class Adam(Reference):
    defaults: ClassVar = {
        "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False, "decoupled": False,
    }  # fmt: skip

    def direction(self, g):
        (b1, b2), o = self.o["betas"], self.o
        g = g if o["decoupled"] else self.decayed(g)
        self.s["exp_avg"] = m = b1 * self.state("exp_avg") + (1 - b1) * g
        self.s["exp_avg_sq"] = v = b2 * self.state("exp_avg_sq") + (1 - b2) * g * g
        if o["amsgrad"]:
            self.s["max_exp_avg_sq"] = v = np.maximum(self.state("max_exp_avg_sq"), v)
        m, v = m / (1 - b1**self.t), v / (1 - b2**self.t)
        return m / (np.sqrt(v) + o["eps"]) + (o["weight_decay"] * self.p if o["decoupled"] else 0)

    def update(self, g):
        return self.o["lr"] * self.direction(g)


class AdamW(Adam):
    defaults: ClassVar = {**Adam.defaults, "weight_decay": 1e-2, "decoupled": True}


class Lamb(Adam):
    defaults: ClassVar = {**AdamW.defaults, "eps": 1e-6, "trust_ratio": (0.0, 10.0)}

    def update(self, g):
        u = self.direction(g)
        norms = np.linalg.norm(self.p.ravel()), np.linalg.norm(u.ravel())
        ratio = np.clip(norms[0] / norms[1], *self.o["trust_ratio"]) if all(norms) else 1.0
        return self.o["lr"] * ratio * u


class SGD(Reference):
    defaults: ClassVar = {"lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False}

    def update(self, g):
        o, g = self.o, self.decayed(g)
        if o["momentum"]:
            first = "momentum_buffer" not in self.s
            v = g if first else o["momentum"] * self.s["momentum_buffer"] + (1 - o["dampening"]) * g
            self.s["momentum_buffer"] = v
            g = g + o["momentum"] * v if o["nesterov"] else v
        return o["lr"] * g


class Adagrad(Reference):
    defaults: ClassVar = {
        "lr": 1e-2, "lr_decay": 0.0, "weight_decay": 0.0, "initial_accumulator_value": 0.0, "eps": 1e-10,
    }  # fmt: skip

    def update(self, g):
        o, g = self.o, self.decayed(g)
        self.s["sum"] = self.state("sum", o["initial_accumulator_value"]) + g * g
        return o["lr"] / (1 + (self.t - 1) * o["lr_decay"]) * g / (np.sqrt(self.s["sum"]) + o["eps"])


class RMSprop(Reference):
    defaults: ClassVar = {
        "lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0, "centered": False,
    }  # fmt: skip

    def update(self, g):
        o, g = self.o, self.decayed(g)
        v = self.s["square_avg"] = o["alpha"] * self.state("square_avg") + (1 - o["alpha"]) * g * g
        if o["centered"]:
            mean = self.s["grad_avg"] = o["alpha"] * self.state("grad_avg") + (1 - o["alpha"]) * g
            v = v - mean * mean
        u = g / (np.sqrt(v) + o["eps"])
        if o["momentum"]:
            u = self.s["momentum_buffer"] = o["momentum"] * self.state("momentum_buffer") + u
        return o["lr"] * u


class Adadelta(Reference):
    defaults: ClassVar = {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0}

    def update(self, g):
        o, g = self.o, self.decayed(g)
        v = self.s["square_avg"] = o["rho"] * self.state("square_avg") + (1 - o["rho"]) * g * g
        u = np.sqrt(self.state("acc_delta") + o["eps"]) / np.sqrt(v + o["eps"]) * g
        self.s["acc_delta"] = o["rho"] * self.state("acc_delta") + (1 - o["rho"]) * u * u
        return o["lr"] * u


class Lion(Reference):
    defaults: ClassVar = {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0}

    def update(self, g):
        (b1, b2), m = self.o["betas"], self.state("exp_avg")
        u = np.sign(b1 * m + (1 - b1) * g) + self.o["weight_decay"] * self.p
        self.s["exp_avg"] = b2 * m + (1 - b2) * g
        return self.o["lr"] * u


# Options that select each branch of a rule.
OPTIONS = {
    "Adam": ({}, {"weight_decay": 0.1, "maximize": True}, {"amsgrad": True, "betas": (0.7, 0.9)}, {"eps": 0.1}),
    "AdamW": ({}, {"weight_decay": 0.3, "amsgrad": True}, {"betas": (0.0, 0.5)}),
    "SGD": (
        {}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.4, "weight_decay": 0.1},
        {"momentum": 0.8, "nesterov": True, "maximize": True},
    ),
    "Adagrad": ({}, {"lr_decay": 0.1, "weight_decay": 0.1}, {"initial_accumulator_value": 0.5}),
    "RMSprop": ({}, {"centered": True}, {"momentum": 0.9, "weight_decay": 0.1}, {"momentum": 0.5, "centered": True}),
    "Adadelta": ({}, {"weight_decay": 0.1, "rho": 0.5}),
    "Lion": ({}, {"weight_decay": 0.1, "lr": 1e-2}),
    "Lamb": ({}, {"weight_decay": 0.0, "trust_ratio": (0.5, 2.0)}),
}  # fmt: skip
CASES = [(name, options) for name, each in OPTIONS.items() for options in each]
IDS = [f"{name}-{'-'.join(options) or 'plain'}" for name, options in CASES]
