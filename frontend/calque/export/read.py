"""StableHLO -> Programs: every operation becomes primitives, so that jit, grad, vmap and aot work
on what jax.export wrote, and lowering's cures apply.

`run` evaluates a module under the current trace, like a Python function.  Values known while
tracing (constants, sizes) stay NumPy arrays, and integers are computed at once: a module with
dimensions that are not known, called with arrays of known shapes, is a Program of known shapes.
The operations are in ops.py and ops_structured.py.  Start reading at `run`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, aval_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.primitive import registry
from calque.core.program import Program
from calque.core.types import Ndarray, Shape
from calque.export.errors import UnsupportedOperationError
from calque.export.hlo import DYNAMIC, Block, Func, Module, Op, Tensor, Value
from calque.export.sizes import Sizes
from calque.export.stream import damaged
from calque.transforms.stage import stage

Handler = Callable[["Reader", Op, list[Any]], Any]
handlers: dict[str, Handler] = {}
LARGE = 4096  # elements of integers computed while reading
MOST = 1_000_000  # operations, those of called functions counted at every call


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register how operations are read."""
    def register(f: Handler) -> Handler:
        for name in names:
            assert name not in handlers, name
            handlers[name] = f
        return f
    return register


def program_of(module: Module, avals: Sequence[ShapedArray], name: str,
               leading: Sequence[Any] = ()) -> Program:
    """The module's main function on arguments of these types, as a Program; the leading arguments
    (the platform's number) are known."""
    with config.context("jax_enable_x64", True):  # types are the module's
        return stage(lambda *xs: run(module, [*leading, *xs]), avals, name)


def run(module: Module, args: Sequence[Any]) -> list[Any]:
    """Evaluate main on values (traced or not)."""
    main = module.function("main")
    if main is None:
        raise damaged("there is no function main")
    if len(args) != len(main.body.arguments):
        raise damaged(f"main takes {len(main.body.arguments)} arguments, not {len(args)}")
    outs = Reader(module).call(main, args)
    return [x.traced() if isinstance(x, Sizes) else x for x in outs]


def bind(name: str, *xs: Any, **params: Any) -> Any:
    """A primitive on values; NumPy arrays of one element for all are spread, not stored."""
    return registry[name].bind(*map(used, xs), **params)


def used(x: Any) -> Any:
    """A value as a primitive takes it."""
    if isinstance(x, Sizes):
        return x.traced()
    if isinstance(x, np.ndarray) and x.ndim and x.size > 1 and not any(
            s for s, n in zip(x.strides, x.shape) if n > 1):
        return registry["broadcast_in_dim"].bind(
            np.array(x[(0,) * x.ndim]), shape=x.shape, broadcast_dimensions=(), sharding=None)
    return x


def concrete_value(x: Any) -> Ndarray | None:
    """The value of something known while tracing."""
    return x if isinstance(x, np.ndarray) else None


class Reader:
    """Evaluates functions of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.calls: list[str] = []
        self.makers: dict[Value, Op] = {}  # which operation makes a value
        self.count = 0

    def call(self, f: Func, args: Sequence[Any]) -> list[Any]:
        if f.name in self.calls:
            raise damaged(f"{f.name} calls itself")
        self.calls.append(f.name)
        try:
            return self.block(f.body, args, {})
        finally:
            self.calls.pop()

    def named(self, name: Any) -> Func:
        found = self.module.function(name) if isinstance(name, str) else None
        if found is None:
            raise damaged(f"there is no function {name}")
        return found

    def block(self, block: Block, args: Sequence[Any], env: dict[Value, Any]) -> list[Any]:
        """The results of a block whose free values are in env."""
        if len(args) != len(block.arguments):
            raise damaged("a block gets arguments too few or too many")
        env = {**env, **dict(zip(block.arguments, args))}
        for op in block.ops:
            xs = [env[v] for v in op.operands]
            if op.name == "return":
                return xs
            outs = self.op(op, xs, env)
            if len(outs) != len(op.results):
                raise damaged(f"{op.name} has results too few or too many")
            for v, o in zip(op.results, outs):
                _check(op, v, o)
                self.makers[v] = op
                env[v] = o
        raise damaged("a block does not return")

    def op(self, op: Op, xs: list[Any], env: dict[Value, Any]) -> list[Any]:
        handler = handlers.get(op.name)
        self.count += 1
        if self.count > MOST:
            raise damaged("its calls unfold to operations without end")
        if handler is None:
            raise UnsupportedOperationError(explain(
                f"{op.name}: this operation of StableHLO cannot be read.", where="deserialize",
                fix="export the function without it."))
        self.env = env
        try:
            out = handler(self, op, xs)
        except (KeyError, AttributeError, IndexError) as error:
            raise damaged(f"{op.name} lacks an attribute, or has a wrong one ({error!r})"
                          ) from error
        return list(out) if isinstance(out, list | tuple) else [out]

    env: dict[Value, Any] = {}  # of the operation that is being read

    def function(self, block: Block) -> Callable[..., list[Any]]:
        """A region as a Python function; what it captures is as it is now."""
        env = self.env
        return lambda *args: self.block(block, args, env)


def _check(op: Op, v: Value, made: Any) -> None:
    """A damaged module may promise other types than its operations have."""
    if not isinstance(v.type, Tensor) or made is None:
        return
    a = aval_of(made)
    if a.dtype != v.dtype or len(a.shape) != len(v.shape) or any(
            n not in (DYNAMIC, m) for n, m in zip(v.shape, a.shape)):
        raise damaged(f"{op.name} gives {a.short()}, not {v!r}")


# ---- attributes
def ints(op: Op, name: str) -> tuple[int, ...]:
    """A vector of integers."""
    value = op.attributes[name]
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "iu":
        raise damaged(f"{name} of {op.name} is no vector of integers")
    return tuple(map(int, value))


def pairs(op: Op, name: str) -> tuple[tuple[int, int], ...]:
    value = op.attributes[name]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or (
            value.size and (value.ndim != 2 or value.shape[1] != 2)):
        raise damaged(f"{name} of {op.name} is no list of pairs")
    return tuple((int(a), int(b)) for a, b in value.reshape(-1, 2))


def integer(op: Op, name: str) -> int:
    return int(op.attributes[name].value)


def case(op: Op, name: str) -> str:
    """The case of an enumeration."""
    return str(op.attributes[name].case)


def static_shape(op: Op, position: int = 0) -> Shape:
    """The shape that a result has, where it is written."""
    shape: Shape = op.results[position].shape
    if DYNAMIC in shape:
        raise damaged(f"{op.name} has a result of no known shape")
    return shape
