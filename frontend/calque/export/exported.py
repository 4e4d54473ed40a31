"""Exported: a function as portable StableHLO, with JAX's names, and `deserialize`, which reads one.

`Exported.serialize` packs, `deserialize` unpacks, `Exported.call` runs: the module becomes a
Program, so that jit and the other transformations see primitives.  make.py has `export`.
Start reading at `Exported` and `_flat`.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_vjp
from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, is_arraylike, shape_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.primitive import registry
from calque.core.program import Program
from calque.dispatch.array import current_device
from calque.dispatch.jit import jit
from calque.dispatch.tracing import argument_path
from calque.export import (  # noqa: F401  (the last three fill read's table)
    bytecode,
    custom_calls,
    ops,
    ops_structured,
    placements,
    read,
    shapes,
    text,
    trees,
)
from calque.export import container as box
from calque.export.errors import ExportError, UnsupportedOperationError
from calque.export.hlo import Module, walk
from calque.export.stream import damaged
from calque.primitives.collectives import cotangent_for
from calque.transforms.stage import replay
from calque.trees import util as tree_util

minimum_supported_calling_convention_version = box.OLDEST
maximum_supported_calling_convention_version = box.NEWEST
_PLATFORM, _CUSTOM_CALL, _SHAPES = range(3)


@dataclass(frozen=True, slots=True)
class DisabledSafetyCheck:
    """A check of exported functions that is left out.

    Example:
      >>> from calque import export
      >>> export.DisabledSafetyCheck.platform()
      platform
      >>> export.DisabledSafetyCheck.custom_call("my_target").is_custom_call()
      'my_target'
    """

    _impl: str

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """The function may be called on platforms it was not exported for.

        Example:
          >>> from calque import export
          >>> export.DisabledSafetyCheck.platform()
          platform
        """
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Custom calls of this target may be exported.

        Example:
          >>> from calque import export
          >>> export.DisabledSafetyCheck.custom_call("f")
          custom_call:f
        """
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The target of a check of custom calls; None for another check.

        Example:
          >>> from calque import export
          >>> export.DisabledSafetyCheck.platform().is_custom_call() is None
          True
        """
        return self._impl.removeprefix("custom_call:") if ":" in self._impl else None

    def __repr__(self) -> str:
        return self._impl

    __str__ = __repr__


@dataclass(frozen=True, eq=False)
class Exported:
    """A function lowered to portable StableHLO.

    Attributes:
      fun_name: the function's name.
      in_tree: structure of (args, kwargs).
      in_avals: types of the arguments' leaves; sizes may be symbolic.
      out_tree: structure of the result.
      out_avals: types of its leaves.
      in_shardings_hlo: None per argument: `in_shardings_jax` has them.
      out_shardings_hlo: None per result.
      nr_devices: how many devices its shardings name.
      platforms: what it may run on.
      ordered_effects: none.
      unordered_effects: none.
      disabled_safety_checks: checks that are left out.
      mlir_module_serialized: the module's bytes (a StableHLO portable artifact).
      calling_convention_version: of the module.
      module_kept_var_idx: positions of the arguments that the module takes.
      uses_global_constants: whether it takes the platform, or has symbolic sizes, or calls an
        exported function that does.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque import export
      >>> e = export.export(calque.jit(jnp.sin))(calque.ShapeDtypeStruct((3,), "float32"))
      >>> e.fun_name, e.in_avals, e.platforms
      ('sin', (ShapedArray(float32[3]),), ('cpu',))
      >>> export.deserialize(e.serialize()).in_avals
      (ShapedArray(float32[3]),)
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    out_avals: tuple[ShapedArray, ...]
    in_shardings_hlo: tuple[None, ...]
    out_shardings_hlo: tuple[None, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    ordered_effects: tuple[Any, ...]
    unordered_effects: tuple[Any, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _in_named_shardings: placements.Shardings = ()
    _out_named_shardings: placements.Shardings = ()
    _get_vjp: Callable[[Exported], Exported] | None = field(default=None, repr=False)
    _traced: Program | None = field(default=None, repr=False)  # what was exported, in this process
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    # ---- looking inside
    def mlir_module(self) -> str:
        """The module as StableHLO text.

        Returns:
          MLIR text.

        Raises:
          DeserializationError: the module's bytes are damaged.

        Example:
          >>> import calque
          >>> from calque import export
          >>> e = export.export(calque.jit(lambda x: -x))(1.0)
          >>> "stablehlo.negate" in e.mlir_module()
          True
        """
        return text.module_text(self._module)

    @cached_property
    def _module(self) -> Module:
        return bytecode.read_module(self.mlir_module_serialized)

    def in_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """Shardings of the arguments over a mesh.

        Args:
          mesh: with the axes of the mesh that the function was exported for.

        Returns:
          A NamedSharding, or None, per argument.

        Raises:
          Nothing.

        Example:
          >>> import calque
          >>> from calque import export
          >>> export.export(calque.jit(lambda x: x))(1.0).in_shardings_jax(None)
          (None,)
        """
        return placements.on_mesh(self._in_named_shardings, mesh)

    def out_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """Shardings of the results over a mesh, where jit was given some, or types say so.

        Args:
          mesh: with the axes of the mesh that the function was exported for.

        Returns:
          A NamedSharding, or None, per result.

        Raises:
          Nothing.

        Example:
          >>> import calque
          >>> from calque import export
          >>> export.export(calque.jit(lambda x: x))(1.0).out_shardings_jax(None)
          (None,)
        """
        return placements.on_mesh(self._out_named_shardings, mesh)

    # ---- derivatives
    def has_vjp(self) -> bool:
        """Whether `vjp` gives the derivative.

        Returns:
          False for what was deserialized without it.

        Raises:
          Nothing.

        Example:
          >>> import calque
          >>> from calque import export
          >>> e = export.export(calque.jit(lambda x: x * x))(1.0)
          >>> e.has_vjp(), export.deserialize(e.serialize()).has_vjp()
          (True, False)
        """
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The exported derivative in reverse mode.

        Returns:
          An Exported of a function of the flat arguments and the cotangents of the flat results,
          which gives a tuple of the arguments' cotangents.

        Raises:
          ValueError: it was deserialized without a derivative.

        Example:
          >>> import calque
          >>> from calque import export
          >>> e = export.export(calque.jit(lambda x: x * x))(1.0)
          >>> len(e.vjp().in_avals), len(e.vjp().out_avals)
          (2, 1)
        """
        if self._get_vjp is None:
            raise ValueError(explain(
                "No VJP is available", fix="serialize the function with vjp_order=1 or more."))
        if "vjp" not in self._memo:
            self._memo["vjp"] = self._get_vjp(self)
        return self._memo["vjp"]

    # ---- bytes
    def serialize(self, vjp_order: int = 0) -> bytearray:
        """Bytes that `deserialize` and jax.export.deserialize read.

        Args:
          vjp_order: how many derivatives in reverse mode go with it.

        Returns:
          The bytes; the same function gives the same ones.

        Raises:
          ValueError: arguments or results have a class that is not registered.
          TypeError: a dictionary among them has a key that is no string.

        Example:
          >>> import calque
          >>> from calque import export
          >>> e = export.export(calque.jit(lambda x: x * x))(1.0)
          >>> e.serialize() == e.serialize()
          True
        """
        return box.write_record(self._record(vjp_order))

    def _record(self, vjp_order: int) -> box.Record:
        checks = tuple((_CUSTOM_CALL, c.is_custom_call() or "") if c.is_custom_call()
                       else (_PLATFORM if str(c) == "platform" else _SHAPES, "")
                       for c in self.disabled_safety_checks)
        return box.Record(
            self.fun_name, trees.node_of(self.in_tree), shapes.written(self.in_avals),
            trees.node_of(self.out_tree), shapes.written(self.out_avals), self.platforms,
            self.mlir_module_serialized, self.module_kept_var_idx, self.uses_global_constants,
            disabled_checks=checks, nr_devices=self.nr_devices,
            calling_convention_version=self.calling_convention_version,
            in_placements=tuple(map(placements.written, self._in_named_shardings)),
            out_placements=tuple(map(placements.written, self._out_named_shardings)),
            vjp=self.vjp()._record(vjp_order - 1) if vjp_order > 0 else None)

    # ---- calls
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on the current device.

        Args:
          *args: as the function was exported for.
          **kwargs: the same.

        Returns:
          What the function returns.

        Raises:
          ValueError: the arguments' structure, shapes or dtypes differ, or the function was
            exported for another platform or another number of devices.
          TypeError: an argument is no array.

        Notes:
          It may be used under jit, vmap and, if a derivative is there, grad.  (JAX does not vmap
          exported functions.)

        Example:
          >>> import calque
          >>> from calque import export
          >>> e = export.export(calque.jit(lambda x: {"twice": 2 * x}))(1.0)
          >>> e.call(4.0)["twice"]
          Array(8., dtype=float32, weak_type=True)
        """
        leaves, tree = tree_util.flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(_structure_error(self, args, kwargs))
        values = [_checked(x) for x in leaves]
        bound = shapes.check(self.in_avals, [aval_of(x) for x in values],
                             lambda i: argument_path(self.in_tree, i))
        platform = self._platform_index()
        mesh = placements.check(self.fun_name, self.nr_devices, values)
        with self._wide():
            outs = self._function(bound, platform)(*values)
        return self.out_tree.unflatten(placements.spread(outs, self._out_named_shardings, mesh))

    def _wide(self) -> Any:
        """Numbers of 64 bits inside are what they are, also where new ones are cut to 32."""
        if "wide" not in self._memo:
            self._memo["wide"] = any(
                getattr(v.type, "dtype", np.dtype(bool)).itemsize >= 8
                for f in self._module.functions for op in walk(f.body) for v in op.results)
        if self._memo["wide"] and not config.jax_enable_x64:
            return config.context("jax_enable_x64", True)
        return contextlib.nullcontext()

    def _platform_index(self) -> int:
        name = current_device().platform
        unchecked = any(str(c) == "platform" for c in self.disabled_safety_checks)
        if name in self.platforms:
            return self.platforms.index(name)
        if not unchecked:
            raise ValueError(explain(
                f"Function '{self.fun_name}' was exported for platforms '{self.platforms}' but it "
                f"is used on '{(name,)}'.", fix=f"export it with platforms=({name!r},)."))
        return 0

    def _function(self, bound: shapes.Bound, platform: int) -> Callable[..., list[Any]]:
        """The function of flat arguments for certain sizes, jitted."""
        key = (bound, platform)
        if key not in self._memo:
            self._memo[key] = _flat(self, bound, platform)
        return self._memo[key]

    def _program(self, bound: shapes.Bound, platform: int) -> Program:
        """As a Program of the kept arguments, keys by their words, for certain sizes."""
        if self._unrunnable():
            raise UnsupportedOperationError(explain(
                f"{self.fun_name}: {self._unrunnable()}.",
                fix="export a function of one device without effects."))
        avals = [shapes.physical(shapes.concrete(self.in_avals[i], bound))
                 for i in self.module_kept_var_idx]
        leading = len(self._module_arguments()) - len(avals)
        if leading not in (0, 1):
            raise ExportError(explain(
                f"{self.fun_name}: the module takes {leading} arguments more than are known.",
                fix="export it with calling convention 9 or 10."))
        index = [np.asarray(platform, np.int32)] * leading
        module = self._module
        return read.program_of(module, avals, self.fun_name, index)

    def _module_arguments(self) -> list[Any]:
        main = self._module.function("main")
        return [] if main is None else main.body.arguments

    def _unrunnable(self) -> str:
        return "it has effects (callbacks)" if self.ordered_effects or self.unordered_effects \
            else ""


# ---- calling
def _checked(x: Any) -> Any:
    if not is_arraylike(x):
        raise TypeError(explain(f"Argument {x!r} of type {type(x)} is not a valid JAX type",
                                fix="pass arrays or numbers."))
    return x


def _structure_error(e: Exported, args: Any, kwargs: Any) -> str:
    """What differs, as JAX says it."""
    want = e.in_tree.unflatten([0] * e.in_tree.num_leaves)
    found = [*_differences("args", args, want[0]), *_differences("kwargs", kwargs, want[1])]
    lines = "".join(f"   - {line}\n" for line in found)
    return explain(
        "The invocation args and kwargs must have the same pytree structure as when the function "
        f"'{e.fun_name}' was exported, but they have the following structural differences:\n"
        f"{lines}", fix="pass the arguments as in the call of export.export(...).")


def _differences(where: str, got: Any, want: Any) -> list[str]:
    if want is None or isinstance(want, int):
        leaf = not tree_util.is_tree_node(type(got)) if want is not None else got is None
        return [] if leaf else [f"{where} is a {type(got)} in the invocation and a "
                                f"{type(want)} when exported, so their Python types differ."]
    if type(got) is not type(want):
        return [f"{where} is a {type(got)} in the invocation and a {type(want)} when exported, so "
                "their Python types differ."]
    if isinstance(want, dict):
        if got.keys() != want.keys():
            keys = set(got) ^ set(want)
            return [f"{where} is a {type(got)} with {len(got)} child in the invocation and a "
                    f"{type(want)} with {len(want)} child when exported, so the numbers of "
                    f"children do not match, with the symmetric difference of key sets: {keys}."]
        return [d for k in want for d in _differences(f"{where}[{k!r}]", got[k], want[k])]
    if isinstance(want, tuple | list):
        if len(got) != len(want):
            kind = type(want).__name__
            return [f"{where} is a {kind} of length {len(got)} in the invocation and a {kind} of "
                    f"length {len(want)} when exported, so the lengths do not match."]
        return [d for i in range(len(want))
                for d in _differences(f"{where}[{i}]", got[i], want[i])]
    same = tree_util.tree_structure(got) == tree_util.tree_structure(want)
    return [] if same else [f"{where} has another structure than when exported."]


def _flat(e: Exported, bound: shapes.Bound, platform: int) -> Callable[..., list[Any]]:
    """The exported function of flat arguments, with its derivative, jitted."""
    program = e._program(bound, platform)
    out_avals = [shapes.concrete(a, bound) for a in e.out_avals]
    real = [i for i, a in enumerate(e.in_avals) if a.dtype != dtypes.float0]

    def run(*given: Any) -> list[Any]:
        flat = dict(zip(real, given))
        given = tuple(_words(flat.get(i), e.in_avals[i]) for i in e.module_kept_var_idx)
        outs = replay(program, *given)
        return [_result(o, a) for o, a in zip(outs, out_avals) if a.dtype != dtypes.float0]

    run.__name__ = e.fun_name if e.fun_name.isidentifier() else "exported"
    run.exported = e  # type: ignore[attr-defined]  # (`called` finds it)
    differentiable = custom_vjp(run)

    def forward(*flat: Any) -> tuple[list[Any], Any]:
        e.vjp()  # ValueError where there is none
        return run(*flat), flat

    def backward(flat: Any, cts: list[Any]) -> tuple[Any, ...]:
        given = iter(cts)
        full = [np.zeros(a.shape, dtypes.float0) if a.dtype == dtypes.float0 else next(given)
                for a in out_avals]
        full = [_cotangent(c, a) for c, a in zip(full, e.out_avals)]
        rest = dict(zip(real, flat))
        every = [rest[i] if i in rest else np.zeros(
            shapes.concrete(a, bound).shape, dtypes.float0) for i, a in enumerate(e.in_avals)]
        found = e.vjp().call(*every, *full)
        return tuple(cotangent_for(rest[i], found[i]) for i in real)

    differentiable.defvjp(forward, backward)
    inside = jit(differentiable)

    def call(*values: Any) -> list[Any]:
        outs = iter(inside(*[values[i] for i in real]))
        return [np.zeros(a.shape, dtypes.float0) if a.dtype == dtypes.float0 else next(outs)
                for a in out_avals]

    return call


def called(p: Program) -> Iterator[Exported]:
    """The exported functions that a Program calls."""
    for e in p.equations:
        if e.name == "custom_vjp_call":
            rule = getattr(e.params["bwd"].fun, "__self__", None)
            found = getattr(getattr(getattr(rule, "owner", None), "fun", None), "exported", None)
            if found is not None:
                yield found
        for inner in e.inner:
            yield from called(inner)


def _cotangent(ct: Any, a: ShapedArray) -> Any:
    """Of an integer result it is of float0."""
    return np.zeros(shape_of(ct), dtypes.float0) if a.tangent().dtype == dtypes.float0 else ct


def _words(x: Any, a: ShapedArray) -> Any:
    """An argument as the module takes it: keys by their words, nothing as false."""
    if dtypes.is_key(a.dtype):
        return registry["random_unwrap"].bind(x)
    if a.dtype == dtypes.float0:
        return np.zeros(a.shape, bool)
    have = aval_of(x)
    if have.weak_type or have.dtype != a.dtype or not hasattr(x, "aval"):
        return registry["convert_element_type"].bind(x, new_dtype=a.dtype, weak_type=False,
                                                     sharding=None)
    return x


def _result(x: Any, a: ShapedArray) -> Any:
    if dtypes.is_key(a.dtype):
        given = {} if a.dtype == dtypes.key_dtype else {"impl": a.dtype.tag}
        return registry["random_wrap"].bind(x, **given)
    if a.weak_type:
        return registry["convert_element_type"].bind(x, new_dtype=a.dtype, weak_type=True,
                                                     sharding=None)
    return x


# ---- reading one
def deserialize(blob: bytes | bytearray) -> Exported:
    """An exported function from the bytes of Exported.serialize, ours or JAX's.

    Args:
      blob: the bytes.

    Returns:
      An Exported; `call` runs it.

    Raises:
      DeserializationError: the bytes are not an exported function, or damaged.
      UnsupportedOperationError: they are of a version that is not known here.
      ValueError: arguments or results have a class that is not registered here.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque import export
      >>> blob = export.export(calque.jit(lambda x: x + 1))(jnp.zeros(2)).serialize()
      >>> export.deserialize(blob).call(jnp.zeros(2))
      Array([1., 1.], dtype=float32)
    """
    return _of_record(box.read_record(bytes(blob)))


def _of_record(r: box.Record) -> Exported:
    ins, outs = shapes.read(r.in_avals, r.out_avals)
    checks = tuple(
        DisabledSafetyCheck.custom_call(target) if kind == _CUSTOM_CALL
        else DisabledSafetyCheck("platform" if kind == _PLATFORM else "shape_assertions")
        for kind, target in r.disabled_checks)
    vjp = r.vjp
    near = tuple(map(placements.read, r.in_placements)) or (None,) * len(ins)
    far = tuple(map(placements.read, r.out_placements)) or (None,) * len(outs)
    if len(near) != len(ins) or len(far) != len(outs):
        raise damaged("shardings and types do not go together")
    made = Exported(
        r.fun_name, trees.tree_of(r.in_tree), placements.typed(ins, near),
        trees.tree_of(r.out_tree), placements.typed(outs, far),
        (None,) * len(ins), (None,) * len(outs), r.nr_devices, r.platforms, r.ordered_effects,
        r.unordered_effects, checks, r.module, r.calling_convention_version, r.kept,
        r.uses_global_constants, near, far, None if vjp is None else lambda _: _of_record(vjp))
    _ = made._module  # damage is found here, not at the first call
    return made
