# SPDX-License-Identifier: Apache-2.0
"""Products of JAX, which tests compare with, are those of f32: on a GPU its default is TF32."""

import os

os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
