"""pjit: jit by its older name, for which `with mesh:` says where results are."""
from __future__ import annotations

import functools
from typing import Any

from calque.core.errors import explain
from calque.core.mesh import get_mesh
from calque.dispatch.jit import jit
from calque.trees import util as tree_util

_NOT_SAID = object()


def pjit(fun: Any = None, in_shardings: Any = _NOT_SAID, out_shardings: Any = _NOT_SAID,
         **options: Any) -> Any:
    """jit, whose results are over the mesh of `with mesh:`.

    Args:
      fun: as of `jit`.
      in_shardings: as of `jit`.
      out_shardings: as of `jit`; inside `with mesh:` None means that results are whole on every
        device.
      **options: the others of `jit`.

    Returns:
      A jitted function.

    Raises:
      ValueError: (by the function) device or backend is given, and a mesh is entered; and as `jit`.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental.pjit import pjit
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> with Mesh(calque.devices()[:1], ("x",)):
      ...     pjit(lambda x: x + 1, P("x"), None)(jnp.ones(2)).sharding.spec
      P()
    """
    if fun is None:
        return functools.partial(pjit, in_shardings=in_shardings, out_shardings=out_shardings,
                                 **options)
    said = {name: s for name, s in (("in_shardings", in_shardings),
                                    ("out_shardings", out_shardings)) if s is not _NOT_SAID}
    if said or options.get("device") is not None or options.get("backend") is not None:
        _check(options)
    made = jit(fun, **said, **options)
    made.over_entered = True
    made.replicates = out_shardings is None
    made.share("pjit", made.replicates)  # results are elsewhere than those of jit(fun)
    return made


def _check(options: Any) -> None:
    if not get_mesh().empty and tree_util.tree_leaves(
            [options.get("device"), options.get("backend")]):
        raise ValueError(explain(
            "Mesh context manager should not be used with jit when backend or device is also "
            "specified as an argument to jit.", fix="leave device and backend out."))


__all__ = ["pjit"]


def __dir__() -> list[str]:
    return __all__
