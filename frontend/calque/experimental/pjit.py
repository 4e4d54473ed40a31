"""pjit: jit by its older name."""
from calque.jit import jit as pjit

__all__ = ["pjit"]
