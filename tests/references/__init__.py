"""What the ops must compute, written from their definitions and apart from the kernels."""

from .unary import BACKWARD, FORWARD, INTEGER, SAVES_OUTPUT

__all__ = ["BACKWARD", "FORWARD", "INTEGER", "SAVES_OUTPUT"]
