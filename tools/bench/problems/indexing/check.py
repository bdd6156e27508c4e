# SPDX-License-Identifier: Apache-2.0
"""Index checks, which plans launch in the checking mode."""

UNMEASURED = {"check_indices_{T}": "a check that is asked for while a program is debugged"}
