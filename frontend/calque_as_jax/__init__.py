"""`import jax` gives calque in every Python that starts with CALQUE_AS_JAX=1.

Python imports this as it starts, where the variable is set: told by calque_as_jax.pth in
site-packages, or by children/sitecustomize.py where calque is not installed (PYTHONPATH).
calque itself is loaded by the first import of jax.  calque.compat.install() sets the variable, so
that children see what their parent sees.  Values: 1; quiet, which does not say that another jax is
installed; 0, which leaves children as they are.  Imports the standard library alone, and little of
it.  Start reading at `arm`.
"""
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # (typing takes longer than all of this)
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "CALQUE_AS_JAX"
TOPS = ("jax", "jaxlib")
PTH = "calque_as_jax.pth"
HERE = os.path.dirname(os.path.abspath(__file__))
CHILDREN = os.path.join(HERE, "children")


class Waiting:
    """Stands first among the finders until something asks for jax, which loads calque."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """What the finder of calque.compat says of a module of JAX's."""
        if name.partition(".")[0] not in TOPS:
            return None
        return self._finder().find_spec(name, path, target)

    def find_distributions(self, context: Any = None) -> Any:
        """What it says of jax and jaxlib when they are asked for by name."""
        name = getattr(context, "name", None)
        return self._finder().find_distributions(context) if name and name.lower() in TOPS else ()

    def invalidate_caches(self) -> None:
        """Nothing is cached."""

    def _finder(self) -> Any:
        from calque.compat import modules
        return modules.finder()


def arm() -> None:
    """Wait for an import of jax, if the variable is set and nothing waits yet."""
    if os.environ.get(VARIABLE, "0") not in ("", "0") and not any(
            isinstance(f, Waiting) for f in sys.meta_path):
        waiting: Any = Waiting()
        sys.meta_path.insert(0, waiting)


def disarm() -> None:
    """The finder of calque.compat stands there itself."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, Waiting)]


def for_children(environ: dict[str, str] | os._Environ[str], value: str) -> None:
    """Set what makes processes with this environment arm, unless it says 0."""
    if environ.get(VARIABLE) == "0":
        return
    environ[VARIABLE] = value
    paths = environ.get("PYTHONPATH", "")
    if not _is_told() and CHILDREN not in paths.split(os.pathsep):
        environ["PYTHONPATH"] = os.pathsep.join([CHILDREN, *([paths] if paths else [])])


def _is_told() -> bool:
    """Whether Pythons like this one read our .pth file as they start."""
    import site
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE
                                          else [])]
    return any(os.path.exists(os.path.join(folder, PTH)) for folder in folders)


__all__ = ["VARIABLE", "Waiting", "arm", "disarm", "for_children"]
