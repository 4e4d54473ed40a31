"""export: trace a jitted function, write it as portable StableHLO; its derivative likewise.

Start reading at `export`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.api.autodiff import vjp as vjp_of
from calque.core import dtypes
from calque.core.avals import ShapedArray, dtype_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.naming import name_of
from calque.core.primitive import registry
from calque.core.program import Program
from calque.core.trace import Tracer, escaped_tracer_error
from calque.dispatch.array import Array, current_device
from calque.dispatch.sharded.partial_programs import whole
from calque.dispatch.stages import Wrapped
from calque.dispatch.tracing import argument_path, trace_to_program
from calque.export import (  # noqa: F401  (forms fill write's table)
    bytecode_write,
    custom_calls,
    forms,
    forms_lapack,
    forms_structured,
    placements,
    shapes,
    write,
)
from calque.export.container import NEWEST, OLDEST
from calque.export.exported import DisabledSafetyCheck, Exported, called
from calque.export.hlo import Module, walk
from calque.transforms.stage import replay
from calque.trees import util as tree_util

_DONATING = frozenset(("cpu", "cuda", "rocm", "tpu", "neuron", "vulkan"))


def default_export_platform() -> str:
    """The platform that functions are exported for by default: the current device's.

    Returns:
      'cpu', 'cuda' or 'vulkan'.

    Raises:
      Nothing.

    Example:
      >>> from calque import export
      >>> export.default_export_platform()
      'cpu'
    """
    return current_device().platform


def export(fun_jit: Any, *, platforms: Sequence[str] | None = None,
           disabled_checks: Sequence[DisabledSafetyCheck] = ()) -> Callable[..., Exported]:
    """Export a jitted function as portable StableHLO, which other machines and JAX can run.

    Args:
      fun_jit: what `jit` gave, or a function of calque.numpy.
      platforms: where it may run, for example ('cpu', 'cuda'); default: the current device's.
      disabled_checks: checks to leave out.

    Returns:
      A function of example arguments (arrays or ShapeDtypeStructs) that gives an Exported.

    Raises:
      ValueError: fun_jit is not jitted.
      UnsupportedOperationError: an operation of it has no portable form.
      NotImplementedError: it calls back to Python.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque import export
      >>> e = export.export(calque.jit(jnp.cumsum), platforms=("cpu", "cuda"))(jnp.ones(3))
      >>> e.platforms, e.out_avals
      (('cpu', 'cuda'), (ShapedArray(float32[3]),))
    """
    if not isinstance(fun_jit, Wrapped):
        raise ValueError(explain(
            f"Function to be exported must be the result of `jit` but is: {fun_jit}",
            fix="export.export(calque.jit(f))(...)."))
    if isinstance(platforms, str):
        raise ValueError(explain(f"platforms must be a sequence of names, not {platforms!r}.",
                                 fix=f"platforms=({platforms!r},)."))
    checks = tuple(disabled_checks)
    if not all(isinstance(c, DisabledSafetyCheck) for c in checks):
        raise TypeError(explain("disabled_checks must be DisabledSafetyChecks.",
                                fix="use export.DisabledSafetyCheck.platform()."))

    version = config.jax_export_calling_convention_version
    if not OLDEST <= version <= NEWEST:
        raise ValueError(explain(
            f"The requested export calling convention version {version} is outside the range of "
            f"supported versions [{OLDEST}..{NEWEST}].",
            fix="leave jax_export_calling_convention_version as it is."))

    def exporter(*args: Any, **kwargs: Any) -> Exported:
        leaves, tree = tree_util.flatten((args, kwargs))
        shapes.check_scopes(name_of(fun_jit), [getattr(x, "shape", ()) for x in leaves],
                            lambda i: argument_path(tree, i))
        chosen = tuple(platforms) if platforms is not None else (default_export_platform(),)
        if not chosen:
            raise ValueError(explain("platforms is empty.", fix="name one platform or more."))
        with config.exporting(chosen):
            traced = fun_jit.trace(*args, **kwargs)
        _check_donation(chosen, traced.donate_argnums)
        p = whole(traced.jaxpr)
        placed = bool(tree_util.tree_leaves(getattr(fun_jit, "_in", None)))
        count = len(p.inputs)
        given = leaves if len(leaves) == count else [None] * count  # (some are static)
        where = placements.of_program(p, given, placed)
        labels = traced.out_tree.flatten_up_to(traced.out_avals)
        return _exported(p, traced.fun_name, traced.in_tree, traced.out_tree, chosen, checks,
                         out_avals=placements.of_memories(p.out_avals, labels),
                         keep_unused=getattr(fun_jit, "_keep_unused", False), where=where)

    return exporter


def _exported(p: Program, name: str, in_tree: Any, out_tree: Any, platforms: tuple[str, ...],
              checks: tuple[DisabledSafetyCheck, ...],
              in_avals: Sequence[ShapedArray] | None = None,
              out_avals: Sequence[ShapedArray] | None = None, keep_unused: bool = False,
              where: tuple[Any, Any] | None = None) -> Exported:
    """The parts put together; p's consts are written into the module."""
    p = Program(p.inputs, p.equations, p.outputs, p.const_vars, [_constant(c) for c in p.consts],
                p.name)
    kept = tuple(range(len(p.inputs))) if keep_unused else write.kept_inputs(p)
    own = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "f"
    several = len(platforms) > 1
    module = write.module_of(p, own, kept, platforms)
    _check_targets(module, checks)
    ins = tuple(p.in_avals) if in_avals is None else tuple(in_avals)
    outs = tuple(p.out_avals) if out_avals is None else tuple(out_avals)
    if in_avals is not None:  # arguments of float0 are no inputs of the Program
        real = [i for i, a in enumerate(ins) if a.dtype != dtypes.float0]
        kept = tuple(real[i] for i in kept)
    near, far = where or ((None,) * len(ins), (None,) * len(outs))
    return Exported(
        name, in_tree, placements.typed(ins, near), out_tree, placements.typed(outs, far),
        (None,) * len(ins), (None,) * len(outs), placements.devices_of(p, [*near, *far]), platforms,
        (), (), checks, bytecode_write.write_module(module),
        config.jax_export_calling_convention_version, kept,
        several or any(not shapes.is_static(a) for a in ins)
        or any(e.uses_global_constants for e in called(p)), near, far, _vjp_in_process, p)


def _check_donation(platforms: tuple[str, ...], donated: Sequence[int]) -> None:
    """NotImplementedError where arguments are donated and only some of the platforms know that."""
    able = [p for p in platforms if p in _DONATING]
    if donated and able and len(able) < len(platforms):
        raise NotImplementedError(explain(
            "In multi-platform lowering either all or no lowering platforms should support "
            f"donation. Lowering for {platforms} of which only {able} support donation",
            fix="export for the platforms apart, or a function without donate_argnums."))


def _check_targets(module: Module, checks: Sequence[DisabledSafetyCheck]) -> None:
    """ValueError where a client's rule calls what others may lack, and nobody said they have it."""
    said = {c.is_custom_call() for c in checks}
    found = {op.attributes["call_target_name"] for f in module.functions for op in walk(f.body)
             if op.name == "custom_call"}
    lost = sorted(found - custom_calls.CALLS.keys() - said - {"shape_assertion"})
    if lost and "ALL" not in said:
        raise ValueError(explain(
            "Cannot serialize code with custom calls whose targets have no compatibility "
            f"guarantees: {', '.join(lost)}.",
            fix=f"if its readers know it: disabled_checks=[export.DisabledSafetyCheck.custom_call("
                f"{lost[0]!r})]."))


def _constant(x: Any) -> Any:
    if isinstance(x, Tracer):
        raise escaped_tracer_error(x, "export")
    if dtypes.is_key(dtype_of(x)):
        return np.asarray(registry["random_unwrap"].bind(x))
    return x._numpy() if isinstance(x, Array) else np.asarray(x, dtype_of(x))


def _vjp_in_process(e: Exported) -> Exported:
    """The derivative of a function that was exported in this process."""
    p = e._traced
    assert p is not None
    tangents = [a.tangent() for a in e.out_avals]
    ins = [*e.in_avals, *tangents]
    real = [i for i, a in enumerate(ins) if a.dtype != dtypes.float0]
    n = len(e.in_avals)
    moving = [i for i, a in enumerate(e.in_avals) if a.tangent().dtype != dtypes.float0]

    def fun_vjp_jax(*given: Any) -> list[Any]:
        values = dict(zip(real, given))

        def moved(*xs: Any) -> list[Any]:
            every = {**values, **dict(zip(moving, xs))}
            outs = replay(p, *[every[i] for i in real if i < n])
            return [o for o, t in zip(outs, tangents) if t.dtype != dtypes.float0]

        _, pull = vjp_of(moved, *[values[i] for i in moving])
        cts = [values[n + i] for i, t in enumerate(tangents) if t.dtype != dtypes.float0]
        found = dict(zip(moving, pull(cts)))
        return [found[i] if i in found else _nothing(a) for i, a in enumerate(e.in_avals)]

    marks = tree_util.tree_structure((tuple(range(len(real))), {}))
    made, _ = trace_to_program(fun_vjp_jax, marks, [ins[i] for i in real], "fun_vjp_jax")
    outs = [a if i in moving else e.in_avals[i].tangent() for i, a in enumerate(made.out_avals)]
    return _exported(
        made, "fun_vjp_jax", tree_util.tree_structure((tuple(range(len(ins))), {})),
        tree_util.tree_structure(tuple(range(n))), e.platforms, e.disabled_safety_checks, ins, outs,
        where=((*e._in_named_shardings, *e._out_named_shardings), e._in_named_shardings))


def _nothing(a: ShapedArray) -> Any:
    """A cotangent of float0, as modules have it."""
    return registry["broadcast_in_dim"].bind(
        np.False_, shape=a.shape, broadcast_dimensions=(), sharding=None)
