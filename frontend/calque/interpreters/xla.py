"""apply_primitive: a client's primitive evaluated by compiling it; classes that are arrays."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from calque.core.client import ClientPrimitive
from calque.core.memo import Memo
from calque.core.program import param_key
from calque.dispatch.jit import jit

_made = Memo(1024)


class _Handlers(dict[type, Any]):
    """Type -> function of an object that gives the array it stands for.

    A class that is none of NumPy's becomes an array everywhere when it is added (by __jax_array__).
    """

    def __setitem__(self, kind: type, handler: Any) -> None:
        super().__setitem__(kind, handler)
        if not issubclass(kind, (np.ndarray, np.generic)) and not hasattr(kind, "__jax_array__"):
            kind.__jax_array__ = lambda x: np.asarray(handler(x))  # type: ignore[attr-defined]


canonicalize_dtype_handlers = _Handlers({np.ndarray: np.asarray})


def apply_primitive(prim: Any, *args: Any, **params: Any) -> Any:
    """The results of a primitive on arrays, by its lowering.

    Args:
      prim: a Primitive; args: arrays; params: its parameters.

    Returns:
      An array, or a list of them.

    Raises:
      NotImplementedError: it has no lowering.

    Example:
      >>> import functools
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import mlir, xla
      >>> double_p = Primitive("doubled")
      >>> _ = double_p.def_impl(functools.partial(xla.apply_primitive, double_p))
      >>> _ = double_p.def_abstract_eval(lambda x: x)
      >>> mlir.register_lowering(double_p, mlir.lower_fun(lambda x: x + x, False))
      >>> print(double_p.bind(2.0))
      4.0
    """
    if not isinstance(prim, ClientPrimitive):
        return prim.bind(*args, **params)
    key = (prim, tuple((k, param_key(v)) for k, v in params.items()))
    found = _made.get(key)
    if found is None:
        found = _made.keep(key, jit(functools.partial(prim.bind, **params)))
    return found(*args)


__all__ = ["apply_primitive", "canonicalize_dtype_handlers"]


def __dir__() -> list[str]:
    return __all__
