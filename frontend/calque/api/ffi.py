"""Kernels of the user's own inside programs, under the names of jax.ffi: C, CUDA, Vulkan's shaders.

A kernel is compiled with the program and becomes part of it.  Start reading at `ffi_call`.
"""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from calque.api.callbacks import promised_avals
from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, same_type
from calque.core.errors import explain
from calque.core.kernel import PLATFORMS, Handler, Kernel, Kernels, address_of
from calque.core.lists import types_of
from calque.core.program import Program
from calque.core.types import Function
from calque.dispatch.array import Array, current_device
from calque.dispatch.jit import jit
from calque.dispatch.tracing import check_arguments, trace_to_program
from calque.primitives.ffi import ffi_call_p
from calque.runtime import handlers
from calque.transforms.stage import stage
from calque.trees import util as tree_util

__all__ = ["Kernel", "check", "ffi_call", "ffi_lowering", "pycapsule", "register_ffi_target",
           "register_ffi_target_as_batch_partitionable", "register_ffi_type"]
METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
           "legacy_vectorized")
_targets: dict[str, Kernels] = {}
_lock = threading.Lock()


def register_ffi_target(name: str, fn: Kernel | Function,
                        platform: str = "cpu", api_version: int = 1) -> None:
    """Give a kernel, or the form elsewhere, a name under which `ffi_call` finds it.

    Calls that were traced before keep what they found.

    Args:
      name: of any characters, not empty; it may have a kernel and a form elsewhere.
      fn: a Kernel; a PyCapsule of a handler that was compiled with XLA's headers, or a dict of them
        ("instantiate", "prepare", "initialize", "execute"), which the host calls on every
        platform; with platform="default" a function f(*arrays, **attributes) of calque.numpy's
        operations, which is computed where there is no kernel, and exported.
      platform: "cpu", "cuda", "vulkan" or "default".
      api_version: of a handler: 1, the typed interface.

    Returns:
      Nothing.

    Raises:
      TypeError: fn is neither, or a handler of the older interface (api_version=0), or no function
        with platform="default".
      ValueError: name is empty, or the platform another.

    Example:
      >>> from calque import ffi
      >>> ffi.register_ffi_target("one", ffi.Kernel("void one(float *y) { *y = 1; }", "one"))
    """
    if not isinstance(name, str) or not name:
        raise ValueError(explain(f"register_ffi_target: {name!r} is no name.",
                                 fix="pass a text that is not empty."))
    platform = {"gpu": "cuda"}.get(platform.lower(), platform.lower())
    if platform not in (*PLATFORMS, "default"):
        raise ValueError(explain(f"register_ffi_target: no kernels for platform {platform!r}.",
                                 fix=f"pass one of {', '.join(PLATFORMS)}, or 'default' and a "
                                     "function."))
    if type(fn).__name__ == "PyCapsule" or isinstance(fn, dict):
        if api_version != 1:
            raise TypeError(explain(
                f"register_ffi_target: {name!r} is a handler of XLA's of version {api_version} "
                "in a shared library.", fix="compile it with the headers of the typed interface "
                "(api_version=1), or give its source as ffi.Kernel(source, name)."))
        if platform != "cpu":  # of a library that has one for each: there is no stream of XLA's
            return
        fn = Handler(_functions(fn), fn)  # type: ignore[assignment]
    if platform != "default" and not isinstance(fn, (Handler, Kernel)):
        raise TypeError(explain(
            f"register_ffi_target: {name!r} must be an ffi.Kernel, got {type(fn).__name__}.",
            fix="pass ffi.Kernel(source, name of the function); a function of arrays is the "
                "form elsewhere: platform='default'."))
    if platform == "default" and not callable(fn):
        raise TypeError(explain(
            f"register_ffi_target: the form of {name!r} elsewhere must be a function, got "
            f"{type(fn).__name__}.", fix="pass f(*arrays, **attributes)."))
    with _lock:
        _targets[name] = _targets.get(name, Kernels(name)).having(platform, fn)


def _functions(given: Any) -> tuple[int, int, int, int]:
    """The addresses of a handler's functions."""
    stages = given if isinstance(given, dict) else {"execute": given}
    names = ("instantiate", "prepare", "initialize", "execute")
    if "execute" not in stages or not set(stages) <= set(names):
        raise ValueError(explain(
            f"register_ffi_target: a handler of the stages {', '.join(map(str, stages))}.",
            fix=f"give one of {', '.join(names)} each, the last of them always."))
    first, second, third, last = (address_of(stages[n]) if n in stages else 0 for n in names)
    return first, second, third, last


def pycapsule(funcptr: Any) -> Any:
    """A function of a shared library as register_ffi_target takes it.

    Args:
      funcptr: the function, from ctypes (ctypes.cdll.LoadLibrary(path).name).

    Returns:
      A PyCapsule.

    Raises:
      Nothing.

    Example:
      >>> import ctypes
      >>> from calque import ffi
      >>> type(ffi.pycapsule(ctypes.pythonapi.Py_IsInitialized)).__name__
      'PyCapsule'
    """
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return make(ctypes.cast(funcptr, ctypes.c_void_p), None, None)


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Give the type of a handler's state its number.

    Args:
      name: of the type, one for the process.
      type_registration: a dict with "type_id", a PyCapsule of where the number is written, and
        "type_info", one of what ends such an object (or without it).
      platform: accepted.

    Returns:
      Nothing.

    Raises:
      TypeError: no capsules.
      ValueError: the name has another number already.

    Example:
      >>> from calque import ffi
      >>> ffi.register_ffi_type.__name__
      'register_ffi_type'
    """
    info = type_registration.get("type_info")
    if handlers.note_type(name.encode(), address_of(type_registration["type_id"]),
                 0 if info is None else address_of(info)):
        raise ValueError(explain(f"register_ffi_type: {name!r} has another number already.",
                                 fix="register it once in a process."))


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Accepted: a handler sees whole arrays, also of those that are split over devices.

    Args:
      name: of the target.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque import ffi
      >>> ffi.register_ffi_target_as_batch_partitionable("scale")
    """


def ffi_call(target_name: str, result_shape_dtypes: Any, *, has_side_effect: bool = False,
             vmap_method: str | None = None, input_layouts: Any = None, output_layouts: Any = None,
             input_output_aliases: Mapping[int, int] | None = None,
             custom_call_api_version: int = 4, legacy_backend_config: str | None = None
             ) -> Function:
    """A function that calls a registered kernel.

    Args:
      target_name: from register_ffi_target; without it the call is traced, but not compiled.
      result_shape_dtypes: an object with shape and dtype, or a tree of them.
      has_side_effect: the kernel does more than to fill its results: it is called as often as the
        program says, in its order, and each call waits for the one before.  Else a call without a
        used result is left out, and equal calls may be one.
      vmap_method: under vmap: 'sequential' (also 'sequential_unrolled') calls once per element,
        'expand_dims' and 'broadcast_all' once with leading axes (of size 1, or repeated, where not
        mapped), 'legacy_vectorized' with a leading axis on what is mapped only.
      input_layouts, output_layouts: for each array None or its axes in order: row-major.
      input_output_aliases: operand -> result: the kernel finds the operand's values in the result's
        memory (in C it gets the same pointer twice; on GPUs the result has no binding of its own).
        Where nothing reads the operand later, that is its memory, else a copy: it stays as it is.
      custom_call_api_version, legacy_backend_config: 4 and None, the typed interface's.

    Returns:
      f(*arrays, **attributes) -> the tree of results; attributes are Python or NumPy numbers; for
      handlers of XLA's also text, arrays of NumPy's and dicts (ints and floats have 64 bits).

    Raises:
      ValueError: the name is not registered, the vmap_method unknown, a result without shape and
        dtype; it is differentiated.
      TypeError: an attribute that is no number.
      NotImplementedError: vmap without a vmap_method.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque import ffi
      >>> ffi.register_ffi_target("scale", ffi.Kernel('''
      ...     void scale(const float *x, float *y, long n, double by) {
      ...         for (long i = 0; i < n; ++i) y[i] = by * x[i];
      ...     }''', "scale", scalars=lambda inputs, outputs, by: (outputs[0].size, by)))
      >>> x = jnp.arange(3.0)
      >>> calque.jit(lambda x: ffi.ffi_call("scale", x)(x, by=2.0) + 1)(x)
      Array([1., 3., 5.], dtype=float32)
    """
    if vmap_method is not None and vmap_method not in METHODS:
        raise ValueError(explain(
            f"ffi_call: vmap_method must be one of {METHODS}, got {vmap_method!r}."))
    if custom_call_api_version != 4 or legacy_backend_config is not None:
        raise NotImplementedError(explain(
            f"ffi_call: {target_name!r} is called by version {custom_call_api_version} of XLA's "
            "interface.", fix="compile the handler for the typed interface: version 4."))
    for layouts in (input_layouts, output_layouts):
        for layout in layouts or ():
            if layout is not None and list(layout) != list(range(len(layout))):
                raise NotImplementedError(explain(
                    f"ffi_call: the layout {tuple(layout)} of {target_name!r} is not row-major.",
                    fix="transpose the array before the call."))
    specs, out_tree = tree_util.flatten(
        result_shape_dtypes, lambda x: x is None or type(x) in (tuple, list) and not x
        and x is not result_shape_dtypes)
    for i, spec in enumerate(specs):
        if not (hasattr(spec, "shape") and hasattr(spec, "dtype")):
            raise ValueError(explain(
                "All elements of result_shape_dtypes must have a shape and dtype. Got "
                f"{spec!r} at position {i}.", fix="give a ShapeDtypeStruct for each result."))
    if not specs:
        raise ValueError(explain("ffi_call: a kernel must have a result.",
                                 fix="give result_shape_dtypes a ShapeDtypeStruct."))
    avals = promised_avals("ffi_call", specs)
    aliases = tuple((input_output_aliases or {}).items())

    def call(*args: Any, **attributes: Any) -> Any:
        kernels = _targets.get(target_name) or Kernels(target_name)  # (tracing needs no kernel)
        return out_tree.unflatten(call_kernels(kernels, args, avals, vmap_method, aliases,
                                               attributes, bool(has_side_effect)))

    return call


def ffi_lowering(call_target_name: str, *, operand_layouts: Any = None,
                 result_layouts: Any = None, backend_config: Any = None,
                 has_side_effect: bool = False,
                 operand_output_aliases: Mapping[int, int] | None = None) -> Function:
    """A lowering rule that calls a registered kernel, for interpreters.mlir.register_lowering.

    Args:
      call_target_name: from register_ffi_target; looked up when a program is compiled.
      operand_layouts, result_layouts, backend_config: must be None: arrays are row-major, and
        attributes are the params.
      has_side_effect, operand_output_aliases: has_side_effect and input_output_aliases of ffi_call.

    Returns:
      rule(ctx, *MLIR values, **attributes) -> MLIR values; results are what the primitive's
      abstract evaluation says.

    Raises:
      NotImplementedError: a layout or a backend_config is given.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque import ffi
      >>> from calque.extend.core import Primitive
      >>> from calque.interpreters import mlir
      >>> ffi.register_ffi_target("half", ffi.Kernel(
      ...     "void half(const float *x, float *y) { *y = *x / 2; }", "half"))
      >>> half_p = Primitive("half")
      >>> _ = half_p.def_abstract_eval(lambda x: calque.core.ShapedArray(x.shape, x.dtype))
      >>> mlir.register_lowering(half_p, ffi.ffi_lowering("half"))
      >>> print(calque.jit(half_p.bind)(3.0))
      1.5
    """
    for name, value in (("operand_layouts", operand_layouts), ("result_layouts", result_layouts),
                        ("backend_config", backend_config)):
        if value is not None:
            raise NotImplementedError(explain(
                f"ffi_lowering: {name} is not taken.",
                fix="leave it out: arrays are row-major, and attributes are keyword arguments."))
    aliases = tuple((operand_output_aliases or {}).items())

    def rule(ctx: Any, *operands: Any, **attributes: Any) -> list[Any]:
        kernels = _found(call_target_name, "ffi_lowering")
        program = stage(lambda *xs: call_kernels(kernels, xs, tuple(ctx.avals_out), None, aliases,
                                                 attributes, has_side_effect),
                        ctx.avals_in, call_target_name)
        return list(ctx.emit(program, operands))

    return rule


def check(target_name: str, *args: Any, rtol: float | None = None, atol: float | None = None,
          **attributes: Any) -> None:
    """Compare a kernel with the form elsewhere of its name, on the device of the arguments.

    Args:
      target_name: registered with a Kernel and with a function (platform="default").
      *args: arrays, of any shapes and dtypes that both take; on a GPU (device_put) its kernel is
        compared.
      rtol: relative tolerance; default: 1000 eps of a result's dtype (sums may be taken in another
        order), 0 for whole numbers.
      atol: absolute tolerance, likewise.
      **attributes: numbers, for both.

    Returns:
      Nothing.

    Raises:
      AssertionError: a result differs; it says which, where and by how much.
      ValueError: the name has no kernel for the device, or no function.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import ffi
      >>> ffi.register_ffi_target("add_one", ffi.Kernel('''
      ...     void add_one(const float *x, float *y, long n) {
      ...         for (long i = 0; i < n; ++i) y[i] = x[i] + 1;
      ...     }''', "add_one", scalars=lambda inputs, outputs: (outputs[0].size,)))
      >>> ffi.register_ffi_target("add_one", lambda x: x + 1, platform="default")
      >>> ffi.check("add_one", jnp.arange(5.0))
    """
    kernels = _found(target_name, "ffi.check")
    place = next((x._memory.device for x in tree_util.tree_leaves(args)
                  if issubclass(type(x), Array)),
                 None) or current_device()
    if kernels.get(place.platform) is None or kernels.plain is None:
        raise ValueError(explain(
            f"ffi.check: {target_name!r} must have a kernel and a form elsewhere to compare, "
            f"on {place}.",
            fix="register both: a Kernel, and a function with platform='default'."))
    plain = kernels.plain
    wanted = jit(lambda *xs: plain(*xs, **attributes))(*args)
    got = jit(lambda *xs: ffi_call(target_name, wanted)(*xs, **attributes))(*args)
    for i, (a, b) in enumerate(zip(tree_util.tree_leaves(got), tree_util.tree_leaves(wanted))):
        loose = 1000 * float(dtypes.finfo(b.dtype).eps) if dtypes.is_inexact(b.dtype) else 0.0
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), rtol=loose if rtol is None else rtol,
            atol=loose if atol is None else atol,
            err_msg=f"result {i} of the kernel {target_name!r} (first) and its form elsewhere")


def _found(name: str, verb: str) -> Kernels:
    kernels = _targets.get(name)
    if kernels is None:
        raise ValueError(explain(
            f"{verb}: no kernel is registered as {name!r}.",
            fix="call ffi.register_ffi_target(name, ffi.Kernel(...)) before."))
    return kernels


def _traced(kernels: Kernels, ins: list[ShapedArray], in_tree: Any, outs: tuple[ShapedArray, ...],
            attributes: dict[str, Any]) -> Program | None:
    """The form elsewhere for these arguments."""
    if kernels.plain is None:
        return None
    name, plain = kernels.name, kernels.plain
    program, _ = trace_to_program(lambda *xs: plain(*xs, **attributes), in_tree, ins, name)
    if program.consts:
        raise ValueError(explain(
            f"ffi_call: the form elsewhere of {name!r} uses arrays that are not its arguments.",
            fix="pass them as arguments, to the kernel too."))
    got = types_of(program.out_avals)
    if got != types_of(outs):
        raise TypeError(explain(
            f"ffi_call: the form elsewhere of {name!r} gives "
            f"{', '.join(a.short() for a in program.out_avals)}, and result_shape_dtypes says "
            f"{', '.join(a.short() for a in outs)}.", fix="let both give one shape and dtype."))
    return program


def call_kernels(kernels: Kernels, args: Sequence[Any], outs: tuple[ShapedArray, ...],
                 vmap_method: str | None, aliases: tuple[tuple[int, int], ...],
                 attributes: dict[str, Any], has_side_effect: bool = False) -> list[Any]:
    """The flat results of a call."""
    leaves, in_tree = tree_util.flatten((tuple(args), {}))
    check_arguments("ffi_call", leaves, in_tree)
    ins = [aval_of(x) for x in leaves]
    _check(kernels, ins, outs, aliases, attributes)
    plain = _traced(kernels, ins, in_tree, outs, attributes)
    return list(ffi_call_p.bind(
        *leaves, kernels=kernels, result_avals=outs, vmap_method=vmap_method, aliases=aliases,
        has_side_effect=has_side_effect, plain=plain,
        attributes=_kept(kernels, attributes)))


def _kept(kernels: Kernels, attributes: Mapping[str, Any]) -> tuple[tuple[str, Any, str], ...]:
    """Attributes as an equation has them: a name, the value, and what tells apart equal ones."""
    if kernels.handler is None:
        return tuple((k, v if isinstance(v, Hashable) else repr(v),  # (the latter: no kernel)
                      f"{type(v).__name__} {v!r}")  # 0.0 == -0.0 == False
                     for k, v in attributes.items())
    made = []
    for k, v in attributes.items():
        try:
            made.append((k, handlers.frozen(v), ""))
        except TypeError as error:
            raise TypeError(explain(
                f"ffi_call: attribute {k} of {kernels.name!r} must be a number, an array of "
                f"NumPy's, text or a dict of these, got {error}.",
                fix="pass traced values as arguments.")) from None
    return tuple(made)


def _check(kernels: Kernels, ins: list[ShapedArray], outs: tuple[ShapedArray, ...],
           aliases: tuple[tuple[int, int], ...], attributes: dict[str, Any]) -> None:
    """Errors that need no compiler."""
    name = kernels.name
    numbers = kernels.handler is None and (kernels.of or kernels.plain)
    for key, value in attributes.items() if numbers else ():
        if not isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_)):
            raise TypeError(explain(
                f"ffi_call: attribute {key} of {name!r} must be a number, got "
                f"{type(value).__name__}.", fix="pass arrays and traced values as arguments."))
    takes = [k for _, k in kernels.of if isinstance(k, Handler) or k.scalars or k.grid or k.work
             or callable(k.shared_memory)]
    if kernels.of and attributes and not takes:
        raise TypeError(explain(
            f"ffi_call: {name!r} takes no attributes, got {', '.join(attributes)}.",
            fix="let the kernel have scalars=lambda inputs, outputs, **attributes: (...)."))
    if any(dtypes.is_key(a.dtype) for a in (*ins, *outs)):
        raise TypeError(explain(f"ffi_call: {name!r} cannot take PRNG keys.",
                                fix="pass random.key_data(key)."))
    for a in (*ins, *outs) if kernels.handler is not None else ():
        if handlers.code_of(a.dtype) is None:
            raise TypeError(explain(f"ffi_call: handlers of XLA's take no {a.dtype} ({name!r}).",
                                    fix="convert the array before the call."))
    if len({j for _, j in aliases}) < len(aliases):
        raise ValueError(explain(f"ffi_call: two arguments of {name!r} are one result's memory.",
                                 fix="name each result once in input_output_aliases."))
    for i, j in aliases:
        for what, k, count in (("input", i, len(ins)), ("output", j, len(outs))):
            if not 0 <= k < count:
                raise ValueError(explain(
                    f"ffi_call: input_output_aliases of {name!r} has {i}: {j} with {what} index "
                    f"{k} outside the range [0, {count}).", fix="count from 0."))
        if not same_type(ins[i], outs[j]):
            raise ValueError(explain(
                f"ffi_call: input_output_aliases of {name!r} has {i}: {j}, referring to an input "
                f"with abstract value {ins[i]} and an output with {outs[j]}: they cannot be the "
                "same memory.",
                fix="give both one shape and dtype."))
