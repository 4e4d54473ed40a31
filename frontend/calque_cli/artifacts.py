"""calque run and calque inspect: artifacts by their own description.

Start reading at `run_artifact`.
"""
from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from calque import runtime
from calque.aot.specs import parse_array, parse_tree
from calque.core.dims import Dim
from calque.core.dtypes import finfo
from calque.dispatch.array import Array, from_numpy
from calque.lowering.rules import physical
from calque.runtime import aot
from calque.transforms.stage import replay
from calque.trees.util import tree_leaves
from calque_cli.functions import traced_function
from calque_cli.report import RunError, UsageError, progress, size_text

_PLATFORMS = {"llvm-cpu": "cpu", "cuda": "cuda", "vulkan-spirv": "vulkan"}


# ---- run
def run_artifact(path: Path, function: str | None, inputs: Sequence[str],
                 output: Path | None, parameters: Path | None = None) -> None:
    """Run a function of an artifact and print, or save, its results."""
    call = _load_function(path, function, parameters)
    record = call.record
    if len(inputs) != len(record.args):
        wanted = " ".join(f"--input {_example(a)}" for a in record.args) or "no --input"
        raise UsageError(f"{record.name} takes {len(record.args)} inputs, got {len(inputs)}.",
                         f"give {wanted}.")
    arrays = [_read(text, a) for text, a in zip(inputs, record.args, strict=True)]
    _refuse_wrong_sizes(call, arrays)
    with progress(f"running {record.name}"):
        try:
            results = [b.numpy() for b in call(*arrays)]
        except runtime.DeviceError as error:
            raise RunError(str(error)) from error
    if output is not None:
        _save(output, record, results)
    else:
        _print(record, results)


def _load_function(path: Path, function: str | None, parameters: Path | None = None,
                   check: bool = False) -> aot.ArtifactFunction:
    """A function of an artifact, on the first device that one of its forms is for."""
    records = aot.read_records(path)
    names = list(dict.fromkeys(r.name for r in records))
    if function is None and len(names) == 1:
        function = names[0]
    if function is None or function not in names:
        what = f"no function {function!r} in" if function else "several functions are in"
        raise UsageError(f"{what} {path.name}; it has {', '.join(names)}.",
                         "name one of those with --function.")
    platforms = dict.fromkeys(
        _PLATFORMS.get(str(r.target.get("backend", "llvm-cpu")), "cpu")
        for r in records if r.name == function)
    missing = ""
    for platform in platforms:
        try:
            device = runtime.devices(platform)[0]
        except RuntimeError as error:
            missing = missing or str(error).splitlines()[0]
            continue
        return runtime.load(path, device, parameters=parameters,
                            check_parameters=check)[function]
    raise UsageError(f"{path.name} is compiled for {', '.join(platforms)}, and there is no such "
                     f"device here: {missing}",
                     "run it where there is one, or compile it for cpu (see `calque doctor`).")


# ---- bench and verify
def _shapes(record: aot.FunctionRecord, types: Sequence[str]) -> list[tuple[int, ...]]:
    """The arguments' shapes; those with sizes that are known at the call only are given."""
    if not types:
        open_ = next((a for a in record.args if not all(isinstance(d, int) for d in a.shape)), None)
        if open_ is not None:
            raise UsageError(f"{open_.path} is {open_}: its sizes are known at the call only.",
                             "give --arg with the sizes to use, once for each argument: "
                             + " ".join(f"--arg {a.dtype}[...]" for a in record.args))
        return [tuple(d for d in a.shape if isinstance(d, int)) for a in record.args]
    given = [x.shape for t in types for x in tree_leaves(parse_tree(t))]
    if len(given) != len(record.args):
        raise UsageError(f"{record.name} takes {len(record.args)} arrays, got {len(given)} types.",
                         f"give the types of {record.signature()}.")
    return given


def _random_inputs(record: aot.FunctionRecord, seed: int, shapes: Sequence[tuple[int, ...]]
                   ) -> list[np.ndarray[Any, Any]]:
    """Values for every argument: floats in [-1, 1), small whole numbers, both truths."""
    rng = np.random.default_rng(seed)
    made = []
    for a, shape in zip(record.args, shapes, strict=True):
        if a.dtype.kind == "b":
            value: Any = rng.integers(0, 2, shape)
        elif a.dtype.kind in "iu":
            value = rng.integers(0, 4, shape)
        else:
            value = rng.uniform(-1, 1, shape)
            if a.dtype.kind == "c":
                value = value + 1j * rng.uniform(-1, 1, shape)
        made.append(np.asarray(value).astype(a.dtype))
    return made


def bench_artifact(path: Path, function: str | None, repeat: int, seed: int,
                   types: Sequence[str] = ()) -> None:
    """Print how long calls take."""
    call = _load_function(path, function)
    inputs = _random_inputs(call.record, seed, _shapes(call.record, types))
    _refuse_wrong_sizes(call, inputs)
    call = call.form([x.shape for x in inputs])
    buffers = [runtime.Buffer.from_numpy(x, call.device) for x in inputs]
    whole, alone = [], []
    with progress(f"timing {call.record.name}"):
        for i in range(repeat + 3):
            args = [runtime.Buffer.from_numpy(x, call.device) if k in call.record.donated else b
                    for k, (x, b) in enumerate(zip(inputs, buffers, strict=True))]
            start = time.perf_counter()
            results = call(*args)
            returned = time.perf_counter()
            for b in results:
                b.wait()
            if i >= 3:  # the first calls load the program
                whole.append(time.perf_counter() - start)
                alone.append(returned - start)
    typer.echo(f"{call.record.signature()} on {call.device}, {repeat} calls")
    for what, times in (("result there", whole), ("call returned", alone)):
        low, middle, high = np.percentile(times, [25, 50, 75])
        typer.echo(f"  {what}: {_time(middle)} (quartiles {_time(low)} .. {_time(high)})")


def _refuse_wrong_sizes(call: aot.ArtifactFunction, inputs: Sequence[Any]) -> None:
    try:
        call.check(inputs)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error).splitlines()[0], f"it is {call.record.signature()}.") from None


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def verify_artifact(path: Path, function: str, arg: Sequence[str], static: Sequence[str],
                    seed: int, parameters: Path | None = None) -> None:
    """Run the artifact, its parameters checked, and the function on the same inputs; RunError where
    they differ."""
    with traced_function(function, arg, static) as traced:
        name = traced.program.name
        call = _load_function(path, name if name in {
            r.name for r in aot.read_records(path)} else None, parameters, check=True)
        types = [(physical(v.aval).shape, physical(v.aval).dtype) for v in traced.program.inputs]
        call = call.form([shape for shape, _ in types])
        record = call.record
        if any(isinstance(d, Dim) for shape, _ in types for d in shape):
            raise UsageError("the types have sizes that are known at the call only.",
                             "give numbers: verify runs the function at one size.")
        if len(types) != len(record.args) or not all(
                dtype == a.dtype and aot.matches(shape, a.shape)
                for (shape, dtype), a in zip(types, record.args, strict=True)):
            raise UsageError(f"{record.name} of {path.name} takes other arguments: "
                             f"{record.signature()}.", "give the types it was compiled for.")
        inputs = _random_inputs(record, seed, [shape for shape, _ in types])
        _refuse_wrong_sizes(call, inputs)
        arrays = [Array(from_numpy(x)._buffer, v.aval)
                  for x, v in zip(inputs, traced.program.inputs, strict=True)]
        wanted = [y._numpy() for y in replay(traced.program, *arrays)]  # operation by operation
    got = [b.numpy() for b in call(*inputs)]
    worst = 0.0
    for r, x, y in zip(record.results, got, wanted, strict=True):
        error = _difference(x, np.asarray(y))
        worst = max(worst, error)
        typer.echo(f"{r.path or 'result'}: {r}, largest difference {error:.3g} of "
                   f"{_tolerance(r.dtype):.3g} allowed")
        if not error <= _tolerance(r.dtype):
            raise RunError(f"{r.path or 'the result'} of {record.name} differs from {function} by "
                           f"{error:.3g} relative to its largest value.\n  Fix: compile the "
                           "artifact again if the function changed; otherwise report it.")
    typer.echo(f"{record.name} of {path.name} agrees with {function}")


def _difference(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> float:
    """The largest difference, relative to the largest finite value."""
    if x.dtype.kind in "biu":
        return float(np.any(x != y))
    kind = np.complex128 if x.dtype.kind == "c" else np.float64
    x, y = x.astype(kind), y.astype(kind)
    finite = np.isfinite(x) & np.isfinite(y)
    if not np.array_equal(np.where(finite, 0, x), np.where(finite, 0, y), equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    size = np.abs(y[finite]).max() or 1.0
    return float(np.abs(x[finite] - y[finite]).max() / size)


def _tolerance(dtype: Any) -> float:
    """Room for another order of sums and other kernels: 64 roundings of a result."""
    if dtype.kind in "biu":
        return 0.0
    return 64 * float(finfo(dtype).eps)


def _example(argument: aot.ArgumentRecord) -> str:
    return f"'{argument}=...'"


def _read(text: str, argument: aot.ArgumentRecord) -> np.ndarray[Any, Any]:
    """The array for an argument, of its dtype and shape."""
    array = parse_array(text) if "=" in text else _load(text, argument)
    if array.dtype == argument.dtype and aot.matches(array.shape, argument.shape):
        return array
    sizes = ",".join(map(str, array.shape))
    raise UsageError(f"{argument.path} must be {argument}, got {array.dtype}[{sizes}].",
                     f"give --input {_example(argument)}, or a .npy file of that dtype and shape.")


def _load(text: str, argument: aot.ArgumentRecord) -> np.ndarray[Any, Any]:
    """The array in a .npy file; data of a dtype NumPy does not know (bf16) gets the argument's."""
    file = Path(text)
    try:
        with file.open("rb") as data:
            array: Any = np.load(data, allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(f"{argument.path}: no file {text}.",
                         "give a .npy file, or values like f32[3]=1,2,3.") from None
    except (OSError, ValueError, EOFError) as error:
        if str(error).startswith("Object arrays"):
            raise UsageError(
                f"{argument.path}: {text} holds pickled Python objects, which are not loaded.",
                f"save numbers: numpy.save(file, array.astype('{argument.dtype}')).") from None
        raise UsageError(f"{argument.path}: {text} is not a .npy file.",
                         "write it with numpy.save, or give values like f32[3]=1,2,3.") from None
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{argument.path}: {text} holds several arrays.",
                         "give one .npy file for each input.")
    if array.dtype.kind == "V" and array.dtype.itemsize == argument.dtype.itemsize:
        array = array.view(argument.dtype)
    return np.asarray(array)


def _print(record: aot.FunctionRecord, results: Sequence[np.ndarray[Any, Any]]) -> None:
    if len(results) == 1:
        typer.echo(str(results[0]))
        return
    for r, value in zip(record.results, results, strict=True):
        typer.echo(f"{r.path or 'result'}: {r}")
        typer.echo(str(value))


def _save(path: Path, record: aot.FunctionRecord,
          results: Sequence[np.ndarray[Any, Any]]) -> None:
    if path.suffix == ".npy":
        if len(results) != 1:
            raise UsageError(f"{record.name} has {len(results)} results, and {path.name} holds one "
                             "array.", "save them in one .npz file.")
        with path.open("wb") as file:
            np.save(file, results[0])
    elif path.suffix == ".npz":
        named: dict[str, Any] = {
            r.path or "result": x for r, x in zip(record.results, results, strict=True)}
        with path.open("wb") as file:
            np.savez(file, **named)
    else:
        raise UsageError(f"results cannot be saved as {path.name}.",
                         "give a name that ends in .npy, or in .npz for several results.")
    typer.echo(f"wrote {path}")


# ---- inspect
def inspect_artifact(path: Path, as_json: bool) -> None:
    """Print what an artifact says about itself; it need not run on this machine."""
    records = aot.read_records(path)
    size = path.stat().st_size
    if as_json:
        functions = [json.loads(r.text) for r in records]
        typer.echo(json.dumps({"file": str(path), "bytes": size, "functions": functions}, indent=2))
        return
    typer.echo(f"{path} ({size_text(size)})")
    for record in records:
        for line in _lines(record):
            typer.echo("  " + line)


def _lines(record: aot.FunctionRecord) -> list[str]:
    lines = [record.name]
    for i, a in enumerate(record.args):
        notes = (["state"] if record.state is not None and i in record.state.args else []) + (
            ["donated"] if i in record.donated else []) + (
            [] if i in record.passed else ["not used"]) + _spread(a)
        lines.append(f"  argument {a.path}: {a}" + (f"  ({', '.join(notes)})" if notes else ""))
    for p in record.parameters:
        lines.append(f"  parameter {p}")
    for r in record.results:
        lines.append(f"  result{' ' + r.path if r.path else ''}: {r}" + _origin(record, r))
    if record.mesh:
        lines.append("  mesh: " + ", ".join(f"{n} {size}" for n, size in record.mesh))
    target = record.target
    what = {k: target[k] for k in ("arch", "cpu") if target.get(k)}
    lines.append(f"  target: {target.get('name', '?')}" + (
        f" ({', '.join(f'{k} {v}' for k, v in what.items())})" if what else ""))
    if target.get("features"):
        lines.append(f"  features: {' '.join(target['features'])}")
    lines.append("  versions: " + ", ".join(f"{k} {v}" for k, v in sorted(record.versions.items())))
    return lines


def _spread(a: aot.ArgumentRecord) -> list[str]:
    """How it is spread over the mesh: P(x, None)."""
    if a.spec is None:
        return []
    return [f"P({', '.join('+'.join(axes) or 'None' for axes in a.spec)})"]


def _origin(record: aot.FunctionRecord, result: aot.ArgumentRecord) -> str:
    notes = _spread(result)
    if result.origin is not None and result.origin[0] == "argument":
        notes.append(f"argument {record.args[result.origin[1]].path} itself")
    return f"  ({', '.join(notes)})" if notes else ""
