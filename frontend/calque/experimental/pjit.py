"""pjit: jit by its older name."""
from calque.dispatch.jit import jit as pjit

__all__ = ["pjit"]
