"""Our primitives under JAX's names: sin_p, scan_p, custom_jvp_call_p, ...

A primitive that JAX has and we have not is absent.  `jit_p`, `call_p` and `closed_call_p` are one.
"""
from __future__ import annotations

from typing import Any

import calque
from calque.core.primitive import registry

# JAX's names where they are others
_OTHERS = {"add_jaxvals_p": "add_any", "jit_p": "jit", "call_p": "jit", "closed_call_p": "jit",
           "linear_solve_p": "custom_linear_solve", "remat_p": "checkpoint"}


def _found() -> dict[str, Any]:
    made = {f"{name.replace('-', '_')}_p": p for name, p in registry.items()
            if name.replace("-", "_").isidentifier()}
    made.update({name: registry[ours] for name, ours in _OTHERS.items() if ours in registry})
    return made


globals().update(_found())
__all__ = sorted(_found())


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Those that JAX has and we compute by others, and those of modules that are loaded later."""
    found = getattr(calque.lax.linalg, name, getattr(calque.lax, name, None)) if name.endswith(
        "_p") else None
    if found is not None:
        return found
    raise AttributeError(f"calque has no primitive {name!r}.\n  Fix: dir(calque.extend.core."
                         "primitives) lists those there are.")
