# SPDX-License-Identifier: Apache-2.0
"""What plans launch where they check indices."""

UNMEASURED = {"check_indices_{T}": "a check that is asked for while a program is debugged"}
