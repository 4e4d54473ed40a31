"""What a Python runs as it starts in a child of a process where calque is not installed.

calque.compat.install() puts this folder first in PYTHONPATH where no .pth file does the same.  A
sitecustomize of the user's own runs as before.
"""
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_top = os.path.dirname(os.path.dirname(_here))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != _here]
if importlib.util.find_spec("calque_as_jax") is None:
    sys.path.append(_top)

import calque_as_jax  # noqa: E402  (found by now)

calque_as_jax.arm()
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
if _spec is not None and _spec.loader is not None:
    _next = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _next
    _spec.loader.exec_module(_next)
