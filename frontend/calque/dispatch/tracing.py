"""From a Python function of trees to a Program: what jit, make_jaxpr, eval_shape, scan and cond
share.  `trace_to_program(fun, in_tree, avals)` calls fun once on tracers.
"""
from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from calque.core import dtypes, monitoring
from calque.core.avals import (
    ManualAxisType,
    ShapedArray,
    aval_of,
    is_arraylike,
    is_of_jax,
    refuse_jax,
)
from calque.core.collecting import rarely
from calque.core.config import config
from calque.core.errors import explain
from calque.core.formats import Format, check_format, layout_of, order_of, sharding_in
from calque.core.memo import Memo
from calque.core.mesh import get_mesh
from calque.core.naming import dress, makes_generators, name_of, signature_of
from calque.core.program import Program
from calque.core.refs import AbstractRef, Frame, Ref, Uses, read, refuse_result
from calque.core.sharding import NamedSharding, PartitionSpec, Sharding
from calque.core.trace import Tracer, current, scopes
from calque.core.tracebacks import boundary
from calque.core.types import Function
from calque.transforms.explicit import of_types
from calque.transforms.stage import Marking, stage
from calque.trees import util as tree_util
from calque.trees.spec import structure_of


def check_callable(fun: Any) -> None:
    """TypeError when a transformation is made of what is no function."""
    if not callable(fun):
        raise TypeError(explain(
            f"Expected a callable value, got {fun!r} of type {type(fun).__name__}.",
            fix="pass a function, not its result."))
    if isinstance(fun, staticmethod):
        raise TypeError(explain(f"staticmethod arguments are not supported, got {fun!r}.",
                                fix="decorate the function first, then @staticmethod."))
    if makes_generators(fun):
        raise TypeError(explain(f"Expected a function, got a generator function: {fun!r}.",
                                fix="return a tuple or a list of what it yields."))


def wrapped(fun: Function, new: Function, verb: str) -> Function:
    """`new` under fun's name, with a docstring that says what it is of fun."""
    new = boundary(new)
    dress(new, fun, attributes=True)
    own = f"\n\nOriginal documentation:\n\n{fun.__doc__}" if fun.__doc__ else ""
    new.__doc__ = f"{verb} of {name_of(fun)}.{own}"  # (as fun.__doc__ has it)
    return new


class ShapeDtypeStruct:
    """Shape and dtype without data, as eval_shape returns and lower accepts.

    Args:
      shape: sizes of the axes.
      dtype: of the elements.
      weak_type: whether the dtype gives way in promotion, as that of a Python scalar does.
      sharding: how such an array is spread over devices; None: no matter; a Format says how it lies
        in memory, too.
      is_ref: whether a reference to such an array is meant.
      manual_axis_type: inside shard_map: the mapped axes over which it varies, is unreduced or
        reduced (a sharding.ManualAxisType); None: none.

    Raises:
      ValueError: dtype is None, or the sharding's spec is longer than the shape.
      TypeError: sharding is neither a Sharding nor, where a mesh is set, a PartitionSpec, or
        manual_axis_type is no ManualAxisType.

    Example:
      >>> import calque
      >>> calque.ShapeDtypeStruct((2, 3), "float32")
      ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("shape", "dtype", "weak_type", "_sharding", "_layout", "is_ref",
                 "manual_axis_type")

    def __init__(self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False,
                 sharding: Any = None, is_ref: bool = False, manual_axis_type: Any = None
                 ) -> None:
        if not (manual_axis_type is None or isinstance(manual_axis_type, ManualAxisType)):
            raise TypeError(explain(
                "`manual_axis_type` argument passed to ShapeDtypeStruct should be of type "
                f"`jax.sharding.ManualAxisType`. Got type {type(manual_axis_type)}",
                fix="pass sharding.ManualAxisType(varying={name})."))
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        check_format("ShapeDtypeStruct", sharding)
        self._layout, sharding = layout_of(sharding), sharding_in(sharding)
        order_of("ShapeDtypeStruct", self._layout, tuple(shape))
        if isinstance(sharding, PartitionSpec):
            if len(sharding) > len(tuple(shape)):
                raise ValueError(explain(
                    f"ShapeDtypeStruct: {sharding} is only valid for values of rank at least "
                    f"{len(sharding)}, but was applied to a value of rank {len(tuple(shape))}.",
                    fix="shorten the spec."))
            if not (mesh := get_mesh()).empty:
                sharding = NamedSharding(mesh, sharding)
        elif not (sharding is None or isinstance(sharding, Sharding)):
            raise TypeError(explain(
                f"ShapeDtypeStruct: sharding should be a Sharding, got {sharding!r} of type "
                f"{type(sharding)}.", fix="pass NamedSharding(mesh, spec)."))
        if isinstance(sharding, NamedSharding):
            sharding.check_compatible_aval(tuple(shape))
        self.shape = tuple(shape)
        self.dtype = dtype if dtypes.is_key(dtype) else np.dtype(dtype)
        self.weak_type, self._sharding, self.is_ref = weak_type, sharding, is_ref
        self.manual_axis_type = manual_axis_type

    @property
    def sharding(self) -> Any:
        """How such an array is spread over devices; of a PartitionSpec, over the context's mesh.

        Example:
          >>> import calque
          >>> print(calque.ShapeDtypeStruct((2, 3), "float32").sharding)
          None
        """
        if not isinstance(self._sharding, PartitionSpec):
            return self._sharding
        mesh = get_mesh()
        if mesh.empty:
            raise TypeError(explain(
                "When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh cannot be "
                f"empty. Got {self._sharding}", fix="ask for it inside `with calque.set_mesh(mesh)`"
                ", or pass NamedSharding(mesh, spec)."))
        return NamedSharding(mesh, self._sharding)

    @property
    def format(self) -> Format:
        """How such an array lies in memory, and its sharding.

        Example:
          >>> import calque
          >>> calque.ShapeDtypeStruct((2, 3), "float32").format
          Format(layout=None, sharding=None)
        """
        return Format(self._layout, self.sharding)

    @property
    def size(self) -> int:
        """Number of elements.

        Example:
          >>> import calque
          >>> calque.ShapeDtypeStruct((2, 3), "float32").size
          6
        """
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes.

        Example:
          >>> import calque
          >>> calque.ShapeDtypeStruct((2, 3), "float32").ndim
          2
        """
        return len(self.shape)

    @property
    def aval(self) -> ShapedArray:
        """The abstract value that such an argument has.

        Example:
          >>> import calque
          >>> print(calque.ShapeDtypeStruct((2, 3), "float32").aval)
          float32[2,3]
        """
        made = ShapedArray(self.shape, dtypes.canonical(self.dtype), self.weak_type)
        kind = self.manual_axis_type
        if self.sharding is None and kind is None:
            return made
        return made.marked(self.sharding, frozenset() if kind is None else kind._vma())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The shape, dtype and sharding of an array, a tracer or a number.

        Args:
          x: what to describe.

        Returns:
          A ShapeDtypeStruct.

        Example:
          >>> import calque, calque.numpy as jnp
          >>> calque.ShapeDtypeStruct.like(jnp.zeros((2, 3)))
          ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        aval = type_of(x)
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type,
                   sharding=x.sharding if getattr(x, "committed", False) else None,
                   manual_axis_type=aval.mat if aval.vma else None)

    def update(self, **changed: Any) -> ShapeDtypeStruct:
        """The same with another shape, dtype, weak_type or sharding.

        Args:
          **changed: what is other.

        Returns:
          A ShapeDtypeStruct.

        Raises:
          ValueError: a sharding for one that has a layout.

        Example:
          >>> import calque
          >>> calque.ShapeDtypeStruct((2, 3), "float32").update(shape=(4,))
          ShapeDtypeStruct(shape=(4,), dtype=float32)
        """
        if self._layout is not None and isinstance(changed.get("sharding"), Sharding):
            raise ValueError(explain(
                "You are updating ShapeDtypeStruct with a sharding, and it has a layout "
                f"{self._layout}, which would be lost.",
                fix="pass a Format: Format(layout, sharding)."))
        return ShapeDtypeStruct(
            changed.pop("shape", self.shape), changed.pop("dtype", self.dtype),
            **{"weak_type": self.weak_type,
               "sharding": self.sharding if self._layout is None else self.format,
               "manual_axis_type": self.manual_axis_type, **changed})

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        place = "" if self.sharding is None else f", sharding={self.sharding}"
        kind = "" if self.manual_axis_type is None else (
            f", manual_axis_type={self.manual_axis_type}")
        lies = "" if self._layout is None else f", format={self._layout}"
        return (f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{weak}{place}{lies}"
                f"{kind})")

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (
            (self.shape, self.dtype, self.weak_type, self.sharding, self._layout,
             self.manual_axis_type)
            == (other.shape, other.dtype, other.weak_type, other.sharding, other._layout,
                other.manual_axis_type))

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type, self.sharding))


def check_arguments(name: str, leaves: Sequence[Any], tree: Any, refs: bool = False) -> None:
    """TypeError for the first leaf that is no array, with its path in the arguments, OverflowError
    for an int that no array holds; refs: it may be a reference."""
    for i, x in enumerate(leaves):
        if is_of_jax(x):
            refuse_jax(name, x, f"at path {argument_path(tree, i)}")
        if not is_arraylike(x):
            if type(x) is Ref:
                if refs:
                    continue
                raise TypeError(explain(
                    f"{name} takes arrays, got a reference of type {x.abstract} at path "
                    f"{argument_path(tree, i)}.", fix="pass its value, ref[...]."))
            if hasattr(x, "__jax_array__"):
                raise ValueError(explain(
                    "Triggering __jax_array__() during abstractification is no longer supported: "
                    f"{name} got an object of {type(x)} at path {argument_path(tree, i)}.",
                    fix="convert it with jnp.asarray, or register its class as a pytree."))
            raise TypeError(explain(
                f"Error interpreting argument to {name} as an abstract array. The problematic "
                f"value is of type {type(x)} and was passed to the function at path "
                f"{argument_path(tree, i)}.",
                fix="pass an array or a number, or mark the argument as static "
                    "(static_argnums, static_argnames)."))
        dtypes.check_fits(x)
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "OSUMmT":
            raise TypeError(explain(
                f"{name}: argument {argument_path(tree, i)} has dtype {x.dtype}, which is not a "
                "valid JAX array type. Only arrays of numeric types are supported.",
                fix="convert it to numbers."))


def argument_path(tree: Any, index: int) -> str:
    """args[0]['w'] or kwargs['k'] for a leaf of (args, kwargs)."""
    marks = [j == index for j in range(tree.num_leaves)]
    paths = tree_util.tree_leaves_with_path(tree.unflatten(marks))
    path = next(p for p, mark in paths if mark)
    root = "args" if getattr(path[0], "idx", 0) == 0 else "kwargs"
    return root + tree_util.keystr(path[1:])


def check_outputs(name: str, leaves: Sequence[Any], tree: Any, verb: str = "tracing",
                  refs: bool = False) -> None:
    """TypeError for the first returned leaf that is no array, ValueError for a reference where
    these are no results; verb: what the function is traced for."""
    for i, x in enumerate(leaves):
        if not is_arraylike(x):
            path = tree_util.keystr(tree_util.tree_leaves_with_path(
                tree.unflatten(list(range(len(leaves)))))[i][0])
            if type(x) is Ref:
                if refs:
                    continue
                raise refuse_result(name, verb, x, path)
            raise TypeError(explain(
                f"{name} returned a value of type {type(x)} at output component "
                f"{path or '(the result)'}, which is not a valid JAX type",
                fix="return arrays, numbers and trees of them."))


@rarely
def trace_with_refs(fun: Function, in_tree: Any, avals: Sequence[Any],
                    name: str | None = None, verb: str = "jit", marking: Marking | None = None
                    ) -> tuple[Program, Any, Uses]:
    """(Program, output tree, what becomes of references) of fun(*args, **kwargs); in_tree is the
    tree of (args, kwargs); marking: as for stage.  An AbstractRef among avals is an argument that
    is a reference.  Labels of avals are left out: what is traced does not depend on them (see
    labels)."""
    key = _key_of_eager(fun, in_tree, avals, name, verb, marking)
    found = None if key is None else _eager.get(key)
    if found is not None:
        return found
    places = [i for i, a in enumerate(avals) if type(a) is AbstractRef]
    values = [a.inner_aval if type(a) is AbstractRef else a for a in avals] if places else avals
    name = name or name_of(fun)
    in_tree = structure_of(in_tree)
    frame = Frame(current.get())
    kept: list[Any] = []
    names = [name_at(fun, in_tree, i) for i in places]

    def run(*flat: Any) -> list[Any]:
        refs = [Ref(flat[i], n, avals[i].kind) for i, n in zip(places, names)]
        if places:
            given = iter(refs)
            flat = tuple(next(given) if type(a) is AbstractRef else x for x, a in zip(flat, avals))
        args, kwargs = in_tree.unflatten(flat)
        out = fun(*args, **kwargs)
        leaves, out_tree = tree_util.flatten(out)
        check_outputs(name, leaves, out_tree, verb)
        stored = [i for i, r in zip(places, refs) if r.written]
        local = list(frame.local.values())
        kept.extend((out_tree, Uses(len(leaves), places, stored, [v.ref for v in local],
                                    [v.written for v in local], frame.rules, names)))
        return [*leaves, *[r.value for r in refs if r.written],
                *[v.value for v in local if v.written]]

    with monitoring.span(f"trace {name}", "trace", monitoring.TRACE, fun_name=name):
        program = stage(run, of_types(values), name, fun, frame, marking)
    uses: Uses = kept[1]
    if key is not None and not (places or uses.closed or uses.rules) and all(
            not isinstance(c, (Tracer, np.ndarray)) for c in program.consts):
        _eager.keep(key, (program, kept[0], uses))
    return program, kept[0], uses


# What functions of loops and branches were traced to outside of transformations, as JAX remembers
# it: by the function itself, the types of its arguments and the options.
_eager = Memo(256)
_EAGER = frozenset(("scan", "while_cond", "while_body", "cond", "switch"))


def _key_of_eager(fun: Function, in_tree: Any, avals: Sequence[Any], name: str | None, verb: str,
                  marking: Marking | None) -> Any:
    """Under what a trace is remembered; None where it is not."""
    if verb not in _EAGER or type(fun) is not FunctionType or marking is not None:
        return None
    trace: Any = current.get()
    while trace.kind == "lazy" and trace.parent is not None:
        trace = trace.parent
    if trace.kind != "eval" or scopes.get():
        return None
    return weakref.ref(fun), structure_of(in_tree), tuple(avals), name, verb, config.key()


def wrapper_of(fun: Function, what: str, make: Callable[[], Function]) -> Function:
    """make(), the same for the same function: so that what it is traced to is remembered, too."""
    if type(fun) is not FunctionType:
        return make()
    key = weakref.ref(fun), what
    return _eager.get(key) or _eager.keep(key, make())


def name_at(fun: Function, tree: Any, index: int) -> str:
    """How a leaf of (args, kwargs) is named in the function: x_ref, c[0]."""
    marks = [j == index for j in range(tree.num_leaves)]
    (path,) = [p for p, mark in tree_util.tree_leaves_with_path(tree.unflatten(marks)) if mark]
    if getattr(path[0], "idx", 0) == 0 and len(path) > 1:
        signature = signature_of(fun)
        names = [] if signature is None else [
            p.name for p in signature.parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        at = getattr(path[1], "idx", len(names))
        if at < len(names):
            return names[at] + tree_util.keystr(path[2:])
    return argument_path(tree, index)


def trace_to_program(fun: Function, in_tree: Any, avals: Sequence[ShapedArray],
                     name: str | None = None, verb: str = "tracing") -> tuple[Program, Any]:
    """(Program, output tree) of a function that writes into no reference of others; what it reads
    of references is read now."""
    program, out_tree, uses = trace_with_refs(fun, in_tree, avals, name, verb)
    if not uses.closed:
        return program, out_tree
    if any(uses.written):
        ref = next(r for r, w in zip(uses.closed, uses.written) if w)
        raise NotImplementedError(explain(
            f"{name or name_of(fun)} writes into a reference of type {ref.abstract} that was made "
            f"outside of it, which it cannot here ({verb}).",
            fix="return the value instead."))
    count = len(program.inputs) - len(uses.closed)
    return program.replace(
        inputs=program.inputs[:count], const_vars=[*program.const_vars, *program.inputs[count:]],
        consts=[*program.consts, *[read(r) for r in uses.closed]]), out_tree


def traced_among(others: Sequence[Any]) -> tuple[list[Any], Function]:
    """The traced values among arguments that are not differentiated, and the arguments with other
    values in their places."""
    leaves, tree = tree_util.flatten(tuple(others))
    places = [i for i, x in enumerate(leaves) if isinstance(x, Tracer)]
    if not places:
        return [], lambda values: others

    def whole(values: Sequence[Any]) -> Any:
        full = list(leaves)
        for i, v in zip(places, values):
            full[i] = v
        return tree.unflatten(full)

    return [leaves[i] for i in places], whole


def described(x: Any) -> Any:
    """A ShapeDtypeStruct of what has a shape and a dtype and is no array; else x as it is."""
    if isinstance(x, AbstractRef):
        return ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type, is_ref=True)
    if isinstance(x, ShapedArray):
        return ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type)
    if is_arraylike(x) or isinstance(x, (ShapeDtypeStruct, ShapedArray, Ref)) or not (
            hasattr(x, "shape") and hasattr(x, "dtype")):
        return x
    return ShapeDtypeStruct(x.shape, x.dtype)


def type_of(x: Any) -> Any:
    """The abstract value of an argument that may be a reference."""
    if isinstance(x, ShapeDtypeStruct) and x.is_ref:
        return AbstractRef(x.aval)
    return x.abstract if type(x) is Ref else aval_of(x)
