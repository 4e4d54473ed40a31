"""Compiled functions as bytes, and back: artifacts of calque.aot under JAX's names."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque import aot
from calque.core.avals import ShapedArray, aval_of, same_type
from calque.core.errors import explain
from calque.dispatch.array import Array, current_device, to_array
from calque.dispatch.mismatch import leaf_paths
from calque.dispatch.stages import Compiled, Lowered
from calque.runtime import Device
from calque.trees import util as tree_util


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """What was compiled, as bytes for machines of this kind.

    Args:
      compiled: what `jit(f).lower(...).compile()` gave.

    Returns:
      (bytes, structure of (args, kwargs), structure of the results).

    Raises:
      ValueError: the function writes into references that it closes over.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import serialize_executable as se
      >>> made = se.serialize(calque.jit(jnp.sin).lower(1.0).compile())
      >>> se.deserialize_and_load(*made)(0.0)
      Array(0., dtype=float32)
    """
    entry = compiled._entry
    if entry.uses is not None:
        raise ValueError(explain(
            "can't serialize with a closed-over mutable array ref, or with one as an argument.",
            fix="pass and return arrays."))
    lowered: Any = Lowered(compiled._fun, entry, compiled._in_tree)
    return aot.compile(lowered, name="main").vmfb, compiled.in_tree, compiled.out_tree


def deserialize_and_load(serialized: bytes, in_tree: Any, out_tree: Any,
                         backend: Any = None, execution_devices: Sequence[Device] | None = None
                         ) -> Callable[..., Any]:
    """A compiled function from what `serialize` gave, as a function.

    Args:
      serialized, in_tree, out_tree: the three of them.
      backend: accepted for compatibility.
      execution_devices: where it runs: one Device; None: the current one.

    Returns:
      A function of the same arguments and results.

    Raises:
      ArtifactError: the bytes are none, or this machine cannot run them.
      TypeError: (by the function) arguments are of another structure or type.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental import serialize_executable as se
      >>> f = se.deserialize_and_load(*se.serialize(calque.jit(jnp.cumsum).lower(
      ...     jnp.ones(3)).compile()))
      >>> f(jnp.ones(3))
      Array([1., 2., 3.], dtype=float32)
    """
    device = execution_devices[0] if execution_devices else current_device()
    run = aot.load(serialized, device)["main"]
    wants = [ShapedArray(a.shape, a.dtype) for a in run.record.args]
    outs = [ShapedArray(a.shape, a.dtype) for a in run.record.results]

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_util.flatten((args, kwargs))
        if tree != in_tree:
            raise TypeError(explain(
                "Function compiled with input pytree does not match the input pytree it was called "
                f"with: {in_tree} and {tree}.", fix="pass trees like those given to lower()."))
        for path, x, want in zip(leaf_paths(tree), leaves, wants):
            if not same_type(aval_of(x), want):
                raise TypeError(explain(
                    "Argument types differ from the types for which this computation was "
                    f"compiled: {path} is {aval_of(x)}, not {want}.", fix="cast or reshape it."))
        made = run(*[to_array(x)._buffer for x in leaves])
        return out_tree.unflatten([Array(b, a) for b, a in zip(made, outs)])

    return call


__all__ = ["deserialize_and_load", "serialize"]


def __dir__() -> list[str]:
    return __all__
