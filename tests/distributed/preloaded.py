# SPDX-License-Identifier: Apache-2.0
"""Imported by the process that ranks are forked from: the library is open, and has no threads yet."""

import importlib

import baracuda as bk

for name in ("baracuda.demo.train", "distributed.layers", "distributed.nccl_on_host", "distributed.training"):
    importlib.import_module(name)
bk.default_library()
