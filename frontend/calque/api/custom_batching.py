"""custom_vmap: a function with a batching rule of its own.

Start reading at `custom_vmap`; the primitive lies in primitives/custom.py.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.api.control import map as lax_map
from calque.api.custom_derivatives import flat_result
from calque.api.rule_arguments import HandsOn, resolved
from calque.core.errors import explain
from calque.core.lists import flagged
from calque.core.naming import dress, name_of
from calque.core.trace import at_bottom
from calque.core.types import Function
from calque.dispatch.tracing import check_arguments
from calque.primitives.custom import Rule, custom_vmap_p
from calque.trees import util as tree_util


class custom_vmap(HandsOn):  # noqa: N801
    """A function with a batching rule of its own.

    Args:
      fun: a function of trees of arrays, called by position.

    Raises:
      AttributeError: it is called before a rule is set.
      ValueError: the rule's result does not have the structure of the function's.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> @calque.custom_batching.custom_vmap
      ... def f(x):
      ...     return jnp.sin(x)
      >>> @f.def_vmap
      ... def rule(axis_size, in_batched, xs):
      ...     return jnp.cos(xs), True
      >>> calque.vmap(f)(jnp.zeros(2))
      Array([1., 1.], dtype=float32)
    """

    def __init__(self, fun: Function) -> None:
        dress(self, fun, attributes=True)
        self.fun = fun
        self.vmap_rule: Function | None = None

    def def_vmap(self, vmap_rule: Function) -> Function:
        """Set the rule: vmap_rule(axis_size, in_batched, *args) -> (out, out_batched).

        Args:
          vmap_rule: args that are batched have the axis first; in_batched and out_batched are trees
            of bools with the structure of args and of the result.

        Returns:
          The rule.

        Raises:
          Nothing.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.fun)
        if self.vmap_rule is None:
            raise AttributeError(explain(
                f"No batching rule defined for custom_vmap function {name} using def_vmap.",
                fix="set one with def_vmap."))
        args = resolved(self.fun, args, kwargs, type(self).__name__)
        leaves, tree = tree_util.flatten(args)
        check_arguments(name, leaves, tree_util.tree_structure((args, {})))
        kept: list[Any] = []

        def fun(*flat: Any) -> list[Any]:
            found, out_tree = flat_result(name, self.fun(*tree.unflatten(flat)))
            kept.append(out_tree)
            return found

        def rule(size: int, batched: Sequence[bool], *flat: Any) -> tuple[list[Any], list[bool]]:
            assert self.vmap_rule is not None
            out, marks = self.vmap_rule(size, list(tree.unflatten(batched)),
                                        *tree.unflatten(flat))
            found, out_tree = flat_result(name, out)
            flags, flag_tree = tree_util.flatten(marks)
            if flag_tree != out_tree and not (len(flags) == 1 and isinstance(marks, bool)):
                raise ValueError(explain(
                    "structure of output value and output batching specification returned by "
                    f"custom vmap rule ({name_of(self.vmap_rule)}) do not match.\nOutput values: "
                    f"{out_tree}\nBatching spec: {flag_tree}"))
            if kept and out_tree != kept[-1]:
                raise ValueError(explain(
                    f"structure of output returned by custom vmap rule "
                    f"({name_of(self.vmap_rule)}) does not match that of original "
                    f"custom-vmapped function.\nOriginal output: {kept[-1]}\nRule output: "
                    f"{out_tree}"))
            kept.append(out_tree)
            return found, flags * len(found) if len(flags) != len(found) else flags

        params: dict[str, Any] = {"call_jaxpr": Rule(fun), "rule": Rule(rule), "num_consts": 0}
        if not at_bottom():  # what is closed over becomes operands
            assert custom_vmap_p.staged is not None
            leaves, params = custom_vmap_p.staged(*leaves, **params)
        outs = custom_vmap_p.bind(*leaves, **params)
        return kept[-1].unflatten(outs)


def sequential_vmap(fun: Function) -> custom_vmap:
    """fun with a batching rule that runs it once per element, in a loop.

    Args:
      fun: a function of trees of arrays.

    Returns:
      A custom_vmap of fun.

    Raises:
      Nothing.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> f = calque.custom_batching.sequential_vmap(lambda x: x + 1)
      >>> calque.vmap(f)(jnp.zeros(2))
      Array([1., 1.], dtype=float32)
    """
    made = custom_vmap(fun)

    @made.def_vmap
    def rule(axis_size: int, in_batched: Sequence[Any], *args: Any) -> Any:
        leaves, tree = tree_util.flatten(args)
        marks, _ = tree_util.flatten(list(in_batched))
        mapped = flagged(leaves, marks)

        def one(row: Any) -> Any:
            rows = iter(row)
            return made(*tree.unflatten([next(rows) if m else x
                                         for x, m in zip(leaves, marks)]))

        out = lax_map(one, mapped)
        return out, tree_util.tree_map(lambda _: True, out)

    return made


__all__ = ["custom_vmap", "sequential_vmap"]


def __dir__() -> list[str]:
    return __all__
