# %% Through the C function, which has no plan yet
import numpy as np

import baracuda as bk

theta = bk.upload(np.array([[[1, 0, 0], [0, 1, 0]]], dtype=np.float32))  # the identity
grid = bk.empty((1, 2, 2, 2), bk.f32)
library = bk.default_library()
at = [library.ffi.cast("void*", operand.ptr) for operand in (theta, grid)]
status = library.function("affine_grid_2d_f32")(1, 2, 2, *at, library.ffi.NULL, 0, library.ffi.NULL)
library.check("affine_grid_2d_f32", status)
print(bk.download(grid))
