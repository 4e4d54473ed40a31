"""calque run and calque inspect: artifacts by their own description.

Start reading at `run_artifact`.
"""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from calque import runtime
from calque.cli.report import RunError, UsageError, progress, size_text
from calque.runtime import aot
from calque.specs import parse_array

_PLATFORMS = {"llvm-cpu": "cpu", "cuda": "cuda", "vulkan-spirv": "vulkan"}


# ---- run
def run_artifact(path: Path, function: str | None, inputs: Sequence[str],
                 output: Path | None) -> None:
    """Run a function of an artifact and print, or save, its results."""
    record = _choose(aot.read_records(path), function, path)
    platform = _PLATFORMS.get(str(record.target.get("backend", "llvm-cpu")), "cpu")
    try:
        device = runtime.devices(platform)[0]
    except RuntimeError as error:
        raise UsageError(f"{path.name} is compiled for {platform}, and there is no such device "
                         f"here: {str(error).splitlines()[0]}",
                         "run it where there is one, or compile it for cpu (see `calque doctor`)."
                         ) from None
    call = runtime.load(path, device)[record.name]
    if len(inputs) != len(record.args):
        wanted = " ".join(f"--input {_example(a)}" for a in record.args) or "no --input"
        raise UsageError(f"{record.name} takes {len(record.args)} inputs, got {len(inputs)}.",
                         f"give {wanted}.")
    arrays = [_read(text, a) for text, a in zip(inputs, record.args, strict=True)]
    with progress(f"running {record.name}"):
        try:
            results = [b.numpy() for b in call(*arrays)]
        except runtime.DeviceError as error:
            raise RunError(str(error)) from error
    if output is not None:
        _save(output, record, results)
    else:
        _print(record, results)


def _choose(records: Mapping[str, aot.FunctionRecord], function: str | None, path: Path
            ) -> aot.FunctionRecord:
    if function is None and len(records) == 1:
        return next(iter(records.values()))
    if function is None or function not in records:
        what = f"no function {function!r} in" if function else "several functions are in"
        raise UsageError(f"{what} {path.name}; it has {', '.join(records)}.",
                         "name one of those with --function.")
    return records[function]


def _example(argument: aot.ArgumentRecord) -> str:
    return f"'{argument}=...'"


def _read(text: str, argument: aot.ArgumentRecord) -> np.ndarray[Any, Any]:
    """The array for an argument, of its dtype and shape."""
    array = parse_array(text) if "=" in text else _load(text, argument)
    if array.dtype == argument.dtype and array.shape == argument.shape:
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
    except (OSError, ValueError, EOFError):
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
        functions = [json.loads(r.text) for r in records.values()]
        typer.echo(json.dumps({"file": str(path), "bytes": size, "functions": functions}, indent=2))
        return
    typer.echo(f"{path} ({size_text(size)})")
    for record in records.values():
        for line in _lines(record):
            typer.echo("  " + line)


def _lines(record: aot.FunctionRecord) -> list[str]:
    lines = [record.name]
    for i, a in enumerate(record.args):
        notes = (["donated"] if i in record.donated else []) + (
            [] if i in record.passed else ["not used"])
        lines.append(f"  argument {a.path}: {a}" + (f"  ({', '.join(notes)})" if notes else ""))
    for r in record.results:
        lines.append(f"  result{' ' + r.path if r.path else ''}: {r}" + _origin(record, r))
    target = record.target
    what = {k: target[k] for k in ("arch", "cpu") if target.get(k)}
    lines.append(f"  target: {target.get('name', '?')}" + (
        f" ({', '.join(f'{k} {v}' for k, v in what.items())})" if what else ""))
    if target.get("features"):
        lines.append(f"  features: {' '.join(target['features'])}")
    lines.append("  versions: " + ", ".join(f"{k} {v}" for k, v in sorted(record.versions.items())))
    return lines


def _origin(record: aot.FunctionRecord, result: aot.ArgumentRecord) -> str:
    if result.origin is not None and result.origin[0] == "argument":
        return f"  (argument {record.args[result.origin[1]].path} itself)"
    return ""
