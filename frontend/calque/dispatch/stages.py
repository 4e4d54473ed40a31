"""The stages of a jitted function: Wrapped, Traced, Lowered, Compiled.

Names and attributes are those of jax.stages (JAX, "Ahead-of-time lowering and compilation").
Start reading at `Traced`.
"""
from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from calque.core.avals import ShapedArray, aval_of, same_type
from calque.core.config import config
from calque.core.dims import is_static
from calque.core.errors import explain
from calque.core.formats import Format, Layout, format_of, layout_in
from calque.core.mesh import AbstractMesh, Mesh
from calque.core.program import Program
from calque.core.refs import Ref
from calque.core.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding
from calque.core.trace import Tracer, current, eval_trace
from calque.core.types import Function, Shape
from calque.dispatch import costs, signatures
from calque.dispatch.array import Array, current_device, to_array
from calque.dispatch.captured import with_few_captured
from calque.dispatch.laid import LaidArray, order_in
from calque.dispatch.mismatch import argument_names
from calque.dispatch.tracing import ShapeDtypeStruct, check_arguments, type_of
from calque.lowering.driver.module import Lowered as LoweredModule
from calque.lowering.driver.module import LowerOptions, lower, module_text
from calque.lowering.emit import mlir
from calque.lowering.plan.show import Plan
from calque.runtime.errors import DeviceError
from calque.runtime.watch import watchers
from calque.transforms.explicit import is_explicit
from calque.trees import util as tree_util

__all__ = ["ArgInfo", "Compiled", "CompiledMemoryStats", "CompilerOptions", "Lowered", "Traced",
           "Wrapped"]

CompilerOptions = dict[str, str | bool]  # for annotations: no option is known (check_options)

_current = current.get
_local_key = config.local_key.get

if TYPE_CHECKING:
    from calque.dispatch.entry import Entry
    from calque.dispatch.jit import JitFunction


@runtime_checkable
class Wrapped(Protocol):
    """What `jit` returns: a function that can be traced, lowered and compiled ahead of its calls.

    Example:
      >>> import calque
      >>> from calque import stages
      >>> isinstance(calque.jit(lambda x: x), stages.Wrapped)
      True
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run; compiles where that is needed."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace for these arguments."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower for these arguments."""


@dataclass(frozen=True)
class ArgInfo:
    """An argument of a stage: shape, dtype, and whether its memory is given away.

    Example:
      >>> import calque
      >>> calque.jit(lambda x: x).lower(1.0).args_info[0][0]
      ArgInfo(_aval=ShapedArray(float32[], weak_type=True), donated=False)
    """

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """Of the elements."""
        return self._aval.dtype


@dataclass(frozen=True)
class CompiledMemoryStats:
    """Bytes that an executable takes: its code, arguments, results, and those of the results that
    take the memory of donated arguments."""

    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int


class _Stage:
    """What all stages tell of one signature."""

    def __init__(self, fun: JitFunction, entry: Entry, in_tree: Any) -> None:
        self._fun, self._entry, self._in_tree = fun, entry, in_tree
        self._name = fun._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}({', '.join(map(str, self._avals))})>"

    @property
    def _avals(self) -> Sequence[ShapedArray]:
        return self._entry.program.in_avals[:self._in_tree.num_leaves]

    @property
    def in_tree(self) -> Any:
        """The structure of (args, kwargs), without static arguments."""
        return self._in_tree

    @property
    def out_tree(self) -> Any:
        """The structure of the results."""
        return self._entry.out_tree

    @property
    def in_avals(self) -> Any:
        """(args, kwargs) of ShapedArrays."""
        return self._in_tree.unflatten([a.told() for a in self._avals])

    @property
    def args_info(self) -> Any:
        """(args, kwargs) of ArgInfos."""
        return self._in_tree.unflatten([
            ArgInfo(a, i in self._entry.donated) for i, a in enumerate(self._avals)])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Positions of donated arrays among all leaves of the arguments."""
        return tuple(self._entry.donated)

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results."""
        return out_info(self._entry)


def out_info(entry: Entry, lowered: bool = False) -> Any:
    """The results as a tree of ShapeDtypeStructs; when it is lowered, its mesh is of devices."""
    told = entry.told or [None] * len(entry.out_avals)
    layouts = entry.layouts or [None] * len(entry.out_avals)
    # types over a mesh without devices are the program's only
    avals = [t if is_explicit(t) and a.placement is None else a
             for a, t in zip(entry.out_avals, entry.program.out_avals)]
    return entry.out_tree.unflatten([
        struct_of(a, a.placement if lowered and s is None and is_explicit(a) else
                  Format(layout, s) if isinstance(layout, Layout) else s)
        for a, s, layout in zip(avals, told, layouts)])


def struct_of(a: ShapedArray, told: Any = None) -> ShapeDtypeStruct:
    """What is known of a result before it is computed: where it is, if that was said (told), or is
    part of its type, over Explicit axes; then without the devices."""
    sharding = told if told is not None or not is_explicit(a) else a.told().placement
    return ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=sharding,
                            manual_axis_type=a.mat if a.vma else None)


class Traced(_Stage):
    """A function traced for one signature.

    Example:
      >>> import calque
      >>> calque.jit(lambda x: x + 1).trace(1.0).jaxpr
      { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
    """

    @property
    def fun_name(self) -> str:
        """The Python function's name."""
        return self._name

    @property
    def jaxpr(self) -> Program:
        """The Program."""
        return self._entry.program

    @property
    def out_avals(self) -> Any:
        """The results as a tree of ShapedArrays."""
        return self.out_tree.unflatten(list(self._entry.out_avals))

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Emit the StableHLO module.

        lowering_platforms: None: the current device's; what is lowered for others only can be
        looked at, not compiled.
        """
        _ = self._entry.given  # warns of what is donated in vain
        return Lowered(self._fun, self._entry, self._in_tree, lowering_platforms)


class Lowered(_Stage):
    """The StableHLO of a function for one signature; `compile()` makes it callable.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> lowered = calque.jit(lambda x: 2 * x + 1).lower(jnp.ones(8))
      >>> lowered.cost_analysis()["flops"]
      16.0
      >>> lowered.compile()(jnp.ones(8))[0]
      Array(3., dtype=float32)
    """

    def __init__(self, fun: JitFunction, entry: Entry, in_tree: Any,
                 platforms: Sequence[str] | None = None) -> None:
        super().__init__(fun, entry, in_tree)
        self._platforms = None if platforms is None else tuple(platforms)

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, and shardings that are said or part of types."""
        return out_info(self._entry, lowered=True)

    @property
    def entry(self) -> Entry:
        """The Program and how it is called."""
        return self._entry

    @property
    def static_positions(self) -> tuple[int, ...]:
        """Positions of static arguments, as jit was told."""
        return self._fun._static_argnums

    @property
    def fun(self) -> Function:
        """The Python function."""
        return self._fun._fun

    def _lowered(self, locations: bool = False, whole: bool = False) -> LoweredModule:
        from calque.dispatch.eager import target_of
        program, orders = self._entry.logical_program(), self._entry.orders
        if whole and orders is not None:  # (what is compiled, over what lies in memory)
            program = orders.program(program)
        if whole:
            program = with_few_captured(program)
        return lower(program, target_of(current_device()), LowerOptions(
            locations=locations, in_process=True, name=f"jit_{self._name}", whole=whole))

    def _module(self, locations: bool = False, whole: bool = False) -> bytes | None:
        return self._lowered(locations, whole).module

    def plan(self) -> Plan:
        """Which way each part goes, with the user's lines, and why no faster one: the kernels, the
        loops that the host steps through, and what is IREE's.  See `calque explain`.

        Example:
          >>> import calque, calque.numpy as jnp
          >>> plan = calque.jit(lambda x: jnp.exp(x).sum()).lower(jnp.ones((64, 64))).plan()
          >>> [region["family"] for region in plan.to_dict()["regions"]]
          ['iree']
        """
        return self._lowered(whole=True).plan

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The module as MLIR text (dialect 'stablehlo'); ValueError for other dialects.

        A small program is compiled as one kernel on CPUs: that is what compile().as_text() gives.
        """
        _check_dialect("as_text", dialect)
        return self._text(debug_info)

    def _text(self, locations: bool = False, whole: bool = False) -> str:
        module = self._module(locations, whole)
        return "module {\n}\n" if module is None else module_text(module, locations)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module as an object of MLIR's Python bindings (iree.compiler.ir.Module)."""
        _check_dialect("compiler_ir", dialect)
        module = self._module()
        with mlir.context():
            return mlir.ir().Module.parse("module {}" if module is None else module)

    def cost_analysis(self) -> dict[str, Any]:
        """What it costs as it is written: flops, transcendentals, and bytes accessed if each
        operation reads and writes memory.  Sizes known at the call only stay expressions."""
        return costs.analysis(self._entry.program)

    def compile(self, compiler_options: CompilerOptions | None = None, *,
                device_assignment: Sequence[Any] | None = None) -> Compiled:
        """Compile for the current device; ValueError where sizes are known at the call only.

        device_assignment: the devices that arguments and results are on, in order, to be checked;
        those that are said to be over meshes without devices are on these then (RuntimeError
        without them).
        """
        check_options("compile", compiler_options)
        if device_assignment is not None:
            self._check_devices(tuple(device_assignment))
        places = [s for a in (*self._entry.in_avals, *self._entry.out_avals)
                  if (s := a.placement) is not None]
        entry = self._entry
        if places and all(isinstance(getattr(s, "mesh", None), AbstractMesh) for s in places):
            entry = self._on_devices(device_assignment)
        here = current_device().platform
        if self._platforms is not None and here not in self._platforms:
            raise ValueError(explain(
                f"{self._name} was lowered for platforms {self._platforms}, and the current device "
                f"is of {here!r}.", fix="leave lowering_platforms out; calque.export writes for "
                "other platforms, calque.aot compiles for them."))
        for a in self._avals:
            if not is_static(a.shape):
                raise ValueError(explain(
                    f"{self._name}: compile() takes sizes that are numbers, got an "
                    f"argument {a.short()}.",
                    fix="lower for known sizes, or compile for any: aot.compile takes what lower() "
                    "gave."))
        entry.ready(current_device(), f"{self._name}: compile()")
        return Compiled(self._fun, entry, self._in_tree)

    def _on_devices(self, given: Sequence[Any] | None) -> Entry:
        """What was lowered over a mesh without devices, on these."""
        if given is None:
            raise RuntimeError(explain(
                "device_assignment cannot be `None` during compilation. Please pass a tuple of "
                f"devices to `.compile(device_assignment=)`: {self._name} was lowered over "
                "meshes without devices.",
                fix="lowered.compile(device_assignment=tuple(mesh.devices.flat))."))
        entry = copy.copy(self._entry)
        devices = np.array(given, object)

        def over(a: ShapedArray) -> ShapedArray:
            if a.placement is None:
                return a
            m, spec = a.placement.mesh, a.placement.spec
            return a.marked(NamedSharding(Mesh(
                devices.reshape(m.axis_sizes), m.axis_names, m.axis_types), spec), a.vma)
        entry.in_avals = [over(a) for a in entry.in_avals]
        entry.out_avals = tuple(over(a) for a in entry.out_avals)
        return entry

    def _check_devices(self, given: tuple[Any, ...]) -> None:
        """ValueError where arrays are on others."""
        for a in (*self._entry.in_avals, *self._entry.out_avals):
            mesh = getattr(a.placement, "mesh", None)
            if a.placement is not None and not isinstance(mesh, AbstractMesh) and (
                    a.placement._assignment != given):
                raise ValueError(explain(
                    "device_assignment passed to `.compile` must match the device_assignment "
                    f"calculated from array shardings and out_shardings. Got {given} and "
                    f"{a.placement._assignment}", fix="leave device_assignment out."))


def _sharding(a: ShapedArray) -> Any:
    return SingleDeviceSharding(current_device()) if a.placement is None else a.placement


_OF_XLA = re.compile(
    r"xla_(allow|backend|cpu|disable|dump|embed|enable|force|gpu|hlo|llvm|tpu)_|"
    r"(exec_time_optimization|memory_fitting)_effort$|(optimization|memory_fitting)_level$")
_BOOLS = re.compile(r"xla_(allow|disable|embed|enable)_")


def check_options(what: str, options: CompilerOptions | None) -> None:
    """No option of XLA means anything here: those that look like one are taken, and said."""
    for option, value in sorted((options or {}).items()):
        if not _OF_XLA.match(option):
            raise DeviceError(explain(
                f"No such compile option: {option!r} ({what}).",
                fix="leave it out; docs/cli.md has the variables that calque reads."))
        if _BOOLS.match(option) and isinstance(value, str) and (
                value.lower() not in ("true", "false", "0", "1")):
            raise DeviceError(explain(
                f"While setting option {option}, {value!r} is not a valid bool value. ({what})",
                fix="use True or False."))
    for option in sorted(options or ()):
        warnings.warn(f"{what}: the compiler option {option!r} is XLA's, and has no effect.",
                      stacklevel=4)


def _check_dialect(what: str, dialect: str | None) -> None:
    if dialect not in (None, "stablehlo"):
        raise ValueError(explain(
            f"{what}: unknown dialect {dialect!r}.", fix="use 'stablehlo'."))


class Compiled(_Stage):
    """An executable for one signature: called with exactly such arguments.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> run = calque.jit(lambda x: x.sum()).lower(jnp.ones(8)).compile()
      >>> run(jnp.ones(8))
      Array(8., dtype=float32)
      >>> run.memory_analysis().argument_size_in_bytes
      32
    """

    def as_text(self) -> str:
        """The module that was compiled."""
        return Lowered(self._fun, self._entry, self._in_tree)._text(whole=True)

    def cost_analysis(self) -> dict[str, Any]:
        """What it costs: flops, transcendentals, and the least of bytes: arguments and results.

        Over several processes it is what one of them does, with the bytes that it sends.
        """
        return costs.analysis(self._entry.own_program(), fused=True)

    @property
    def input_shardings(self) -> Any:
        """(args, kwargs) of the arguments' shardings."""
        mesh = next((a.placement.mesh for a in self._entry.in_avals
                     if isinstance(a.placement, NamedSharding)), None)
        return self._in_tree.unflatten([
            _sharding(a) if a.placement is not None or mesh is None else
            NamedSharding(mesh, PartitionSpec()) for a in self._entry.in_avals])

    @property
    def out_info(self) -> Any:
        """Shapes, dtypes and shardings of the results."""
        return self._entry.out_tree.unflatten([
            ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=a.placement)
            for a in self._entry.out_avals])

    @property
    def output_shardings(self) -> Any:
        """The results' shardings, in their structure."""
        return self._entry.out_tree.unflatten([_sharding(a) for a in self._entry.out_avals])

    @property
    def input_formats(self) -> Any:
        """(args, kwargs) of the arguments' formats."""
        avals, orders = self._entry.in_avals[:len(self._avals)], self._entry.orders
        ins = [None] * len(avals) if orders is None else orders.ins
        return self._in_tree.unflatten([
            format_of(a.ndim, _sharding(a), order) for a, order in zip(avals, ins)])

    @property
    def output_formats(self) -> Any:
        """The results' formats, in their structure."""
        avals, orders = self._entry.out_avals, self._entry.orders
        outs = [None] * len(avals) if orders is None else orders.outs
        return self._entry.out_tree.unflatten([
            format_of(a.ndim, _sharding(a), order) for a, order in zip(avals, outs)])

    def memory_analysis(self) -> CompiledMemoryStats:
        """Bytes of code, arguments and results."""
        p, entry = self._entry.program, self._entry
        vmfb = self.runtime_executable().vmfb
        return CompiledMemoryStats(
            0 if vmfb is None else len(vmfb), sum(a.nbytes for a in p.in_avals),
            sum(a.nbytes for a in p.out_avals), sum(p.in_avals[i].nbytes for i in entry.given))

    def runtime_executable(self) -> Any:
        """The executable on the device, with its .vmfb; how it looks is no promise."""
        return self._entry.ready(self._entry.device or current_device(), "runtime_executable()")

    _known: tuple[signatures.Reader, tuple[Any, ...]] | None = None  # how a call is read; its key
    _learned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        known, entry = self._known, self._entry
        if known is None or _current() is not eval_trace or watchers:
            return self._checked_call(args, kwargs)
        read = known[0](args, kwargs, (
            config.process_key if _local_key() is None else config.key()))
        if read is None or read[0] != known[1] or (
                read[1][0].device is not entry.device):  # (a reader has leaves)
            return self._checked_call(args, kwargs)
        if entry.slow_path:
            return self._fun._run_slow_path(entry, read[2], read[1])
        outs = entry.run([*entry.consts, *read[1]] if entry.consts else read[1])
        if entry.single:
            return Array(outs[0], entry.out_avals[0])
        return entry.out_tree.unflatten([Array(b, a) for b, a in zip(outs, entry.out_avals)])

    def _learn(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Read calls like one that was right as jit does, which takes a third of the time."""
        checks = (config.jax_debug_nans or config.jax_debug_infs or config.jax_no_execution
                  or config.jax_debug_key_reuse)
        entry = self._entry
        quick = not entry.slow_path or entry.donates or entry.many
        if not quick or checks or _current() is not eval_trace:
            return
        self._learned = True
        now = config.process_key if _local_key() is None else config.key()
        key = signatures.read(self._name, args, kwargs, now)[0]
        reader = signatures.reader(args, kwargs, key[0])
        if reader is not None:
            self._known = reader, key

    def _checked_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, tree = tree_util.flatten((args, kwargs))
        if tree != self._in_tree:
            raise TypeError(explain(
                "Function compiled with input pytree does not match the input pytree it was called "
                f"with. {self._name}: {self._in_tree} and {tree}.",
                fix="leave out static arguments, and pass trees like those given to lower()."))
        for x in leaves:
            if isinstance(x, Tracer):
                raise TypeError(explain(
                    "Cannot apply JAX transformations to a function lowered and compiled for a "
                    f"particular signature. Detected argument of Tracer type: {x}.", self._name,
                    "transform the function, then lower and compile what came of it."))
        check_arguments(self._name, leaves, tree, refs=True)
        types = [(type_of(x).inner_aval if isinstance(x, Ref) else aval_of(x), want)
                 for x, want in zip(leaves, self._avals)]
        if not all(same_type(have, want) for have, want in types):
            names = argument_names(self._fun._fun, args, kwargs)
            rows = [f"Argument {n!r} compiled with {want} and called with {have}"
                    for n, (have, want) in zip(names, types) if not same_type(have, want)]
            raise TypeError(explain(
                f"Argument types differ from the types for which this computation was compiled: "
                f"{self._name}. The "
                "mismatches are:\n" + "\n".join(rows),
                fix="cast or reshape the argument, or lower again for this type."))
        self._check_orders(leaves, args, kwargs)
        buffers = [] if self._entry.uses else [to_array(x)._buffer for x in leaves]
        outs = self._fun._run_slow_path(self._entry, leaves, buffers)
        if not self._learned:
            self._learn(args, kwargs)
        return outs

    def _check_orders(self, leaves: Sequence[Any], args: Any, kwargs: Any) -> None:
        """ValueError where a committed array lies in another order than it was compiled for."""
        orders = self._entry.orders
        ins = [None] * len(leaves) if orders is None else orders.ins
        if orders is None and not any([type(x) is LaidArray for x in leaves]):
            return
        wrong = [(i, x) for i, (x, order) in enumerate(zip(leaves, ins))
                 if isinstance(x, Array) and x.committed and order_in(x) != order]
        if wrong:
            names = argument_names(self._fun._fun, args, kwargs)
            raise ValueError(explain(
                "Computation was compiled for input layouts that disagree with the layouts of "
                f"arguments passed to it. Here are the {len(wrong)} mismatches:\n" + "\n".join(
                    f"Argument {names[i]} with shape {x.aval.plain}:\n"
                    f"  Passed layout: {x.format.layout}\n"
                    f"  Required layout: {layout_in(ins[i], x.ndim)}" for i, x in wrong),
                fix="calque.device_put the arguments with the formats of input_formats."))
