# SPDX-License-Identifier: Apache-2.0
"""Engines that move the bytes of collectives: NCCL, shared memory of a host, or copies within one rank."""
