"""Bodies of the Open Inference Protocol (version 2), with the extension of binary tensors.

A request names the inputs of a function; a tensor's data are JSON, nested or flat in row-major
order, or bytes behind the JSON, little-endian.  All that a request says is compared with the
function's types before memory of a tensor's size is taken.  Numbers that JSON has not are written
"NaN", "Infinity" and "-Infinity".  Start reading at `parse`.
"""
from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.aot import ArgumentRecord
from calque.runtime.serving.entries import Array, Entry, datatype
from calque.runtime.serving.errors import RequestError, shown, wrong

HEADER = "Inference-Header-Content-Length"
_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was read.

    Attributes:
      id: what the answer repeats.
      arrays: the function's inputs, in its order.
      outputs: the outputs that are wanted: their positions, and whether as bytes.
      parameters: what else it says.
    """

    id: str
    arrays: list[Array]
    outputs: list[tuple[int, bool]]
    parameters: Mapping[str, Any]


def parse(body: bytes, header_length: str | None, entry: Entry) -> Request:
    """Read the body of a request.

    Args:
      body: JSON, or JSON and bytes of tensors.
      header_length: the header that says how many bytes are JSON; None: all of them.
      entry: the function that is asked for.

    Returns:
      The Request; its arrays are of the function's dtypes, their shapes as the request says.

    Raises:
      RequestError: of status 400.

    Example:
      >>> from calque import aot, runtime
      >>> import calque.numpy as jnp
      >>> from calque.runtime.serving.entries import Entry
      >>> from calque.runtime.serving.tensors import parse
      >>> entry = Entry(runtime.load(aot.compile(jnp.negative, "f32[b,2]").vmfb).negative)
      >>> body = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}'
      >>> parse(body, None, entry).arrays
      [array([[1., 2.]], dtype=float32)]
    """
    size = len(body) if header_length is None else _length(header_length, len(body))
    raw = read_json(body[:size])
    parameters = _mapping(raw.get("parameters", {}), "parameters")
    name = raw.get("id", "")
    if not isinstance(name, str):
        raise wrong(f"id is {shown(name)}.", "the request", "give a string, or none.")
    given = _tensors(raw, entry)
    rest, at = body[size:], 0
    arrays: dict[str, Array] = {}
    for tensor in given:  # bytes lie in the order of the request
        key, record = tensor["name"], dict(entry.inputs)[tensor["name"]]
        where = f"input {key!r} of {entry.name}"
        shape = _shape(tensor, record, where)
        binary = _mapping(tensor.get("parameters", {}), where).get("binary_data_size")
        if binary is None:
            arrays[key] = _from_json(tensor, shape, record.dtype, where)
            continue
        arrays[key], at = _from_bytes(rest, at, binary, shape, record.dtype, where), at + binary
    if at != len(rest):
        raise wrong(f"{len(rest)} bytes follow the JSON, and the inputs' binary_data_size are {at} "
                    "in all.", "the body of the request",
                    f"make {HEADER} the length of the JSON, and send each input's bytes.")
    return Request(name, [arrays[n] for n, _ in entry.inputs],
                   _wanted(raw, entry, parameters), parameters)


def read_json(body: bytes) -> dict[str, Any]:
    """The object of a body; RequestError where it is none."""
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError) as error:  # (not UTF-8 is a ValueError, too)
        raise wrong(f"the body is no JSON: {str(error)[:200]}.", "the body of the request",
                    "send a JSON object; where bytes follow it, say its length in "
                    f"{HEADER}.") from None
    if not isinstance(raw, dict):
        raise wrong(f"the body is {shown(raw)}, no object.", "the body of the request",
                    "send a JSON object.")
    return raw


def _length(text: str, most: int) -> int:
    size = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
    if not 0 < size <= most:
        raise wrong(f"{HEADER} is {shown(text)}, and the body has {most} bytes.",
                    "the headers of the request", "make it the length of the JSON in bytes.")
    return size


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(f"parameters are {shown(value)}.", where, "give an object, or none.")
    return value


def _tensors(raw: Mapping[str, Any], entry: Entry) -> list[dict[str, Any]]:
    """The inputs of a request, each once, of names and types that the function has."""
    types, found = dict(entry.inputs), raw.get("inputs", [] if not entry.inputs else None)
    names = ", ".join(types) or "none"
    where = f"inputs of {entry.name}"
    if not isinstance(found, list) or not all(isinstance(t, dict) for t in found):
        raise wrong(f"inputs are {shown(found)}.", where,
                    'give a list such as [{"name": ..., "datatype": "FP32", "shape": [2], "data": '
                    "[1, 2]}].")
    seen = set()
    for tensor in found:
        name = tensor.get("name")
        if not isinstance(name, str) or name not in types:
            raise wrong(f"there is no input {shown(name)}.", where, f"name them: {names}.")
        if name in seen:
            raise wrong(f"the input {name!r} is there twice.", where, "give each once.")
        seen.add(name)
        given, wanted = tensor.get("datatype"), datatype(types[name].dtype)
        if given != wanted:
            raise wrong(f"{name} must be {wanted}, got datatype {shown(given)}.", where,
                        f'send it as {wanted}, "datatype": "{wanted}".')
    missing = [n for n in types if n not in seen]
    if missing:
        raise wrong(f"the input {missing[0]!r} is missing.", where, f"give all of: {names}.")
    return found


def _shape(tensor: Mapping[str, Any], record: ArgumentRecord, where: str) -> tuple[int, ...]:
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(
            type(d) is int and 0 <= d < 2**40 for d in shape) or len(shape) > 64 or math.prod(
            d for d in shape if d) * record.dtype.itemsize >= 2**62:  # (NumPy has no larger ones)
        raise wrong(f"shape is {shown(shape)}.", where,
                    "give a list of whole numbers from 0 on, such as [2, 3].")
    if len(shape) != len(record.shape):
        raise wrong(f"it must be {record}, got the shape {shown(shape)} of {len(shape)} axes.",
                    where, "send an array of that shape.")
    return tuple(shape)


def _from_bytes(rest: bytes, at: int, size: Any, shape: tuple[int, ...], dtype: np.dtype[Any],
                where: str) -> Array:
    wanted = math.prod(shape) * dtype.itemsize
    if type(size) is not int or size != wanted:
        raise wrong(f"binary_data_size is {shown(size)}, and {datatype(dtype)} of shape "
                    f"{list(shape)} takes {wanted} bytes.", where, "send as many bytes.")
    if at + size > len(rest):
        raise wrong(f"the body ends {at + size - len(rest)} bytes before its data do.", where,
                    f"send {size} bytes behind the JSON, whose length {HEADER} says.")
    if not size:
        return np.zeros(shape, dtype)
    if dtype == np.bool_:  # other bytes than 0 and 1 are no booleans
        return (np.frombuffer(rest, np.uint8, size, at) != 0).reshape(shape)
    return np.frombuffer(rest, dtype, math.prod(shape), at).reshape(shape)


def _from_json(tensor: Mapping[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any], where: str
               ) -> Array:
    data = tensor.get("data")
    if not shape and type(data) in (int, float, bool):
        data = [data]
    if not isinstance(data, list):
        raise wrong(f"data is {shown(data)}.", where,
                    "give a list of numbers, or bytes behind the JSON and binary_data_size.")
    if dtype.kind == "c" or dtype.itemsize == 1 and dtype.kind not in "biu":
        raise wrong(f"{datatype(dtype)} has no form in JSON.", where,
                    "send bytes behind the JSON and binary_data_size.")
    try:
        found = np.asarray(data)
        if found.dtype.kind == "U":
            found = np.asarray(_named(data), np.float64)
    except (ValueError, OverflowError, RecursionError, KeyError, TypeError):
        raise wrong(f"data is {shown(data)}, no array of numbers.", where,
                    'give numbers, in rows of one length, or all in one list ("NaN", "Infinity" '
                    'and "-Infinity" are numbers, too).') from None
    if found.size != math.prod(shape) or found.ndim > 1 and found.shape != shape:
        raise wrong(f"data has {_counted(found)}, and the shape is {list(shape)}.", where,
                    f"give {math.prod(shape)} numbers, flat or in that shape.")
    return _converted(found, dtype, data, where).reshape(shape)


def _counted(found: Array) -> str:
    return f"{found.size} numbers" if found.ndim < 2 else f"the shape {list(found.shape)}"


def _named(data: Any) -> Any:
    """The same lists with floats in place of the names."""
    if isinstance(data, list):
        return [_named(d) for d in data]
    if isinstance(data, str):
        return _NAMED[data]
    if isinstance(data, int | float):
        return float(data)
    raise TypeError


def _converted(found: Array, dtype: np.dtype[Any], data: Any, where: str) -> Array:
    """Numbers of JSON in a dtype, each of which must have it."""
    if not found.size:
        return np.zeros(found.shape, dtype)
    integers = dtype.kind in "iu"
    kinds = "b" if dtype.kind == "b" else "iu" if integers else "iuf"
    if found.dtype.kind not in kinds:
        raise wrong(f"data is {shown(data)}, which is not all {_words(dtype)}.", where,
                    f"send {_words(dtype)}, as {datatype(dtype)} is.")
    if integers:
        info = np.iinfo(dtype)
        if int(found.min()) < info.min or int(found.max()) > info.max:
            raise wrong(f"data has numbers from {found.min()} to {found.max()}.", where,
                        f"{datatype(dtype)} has those from {info.min} to {info.max}.")
        return found.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        made = found.astype(dtype)
    if found.dtype.kind == "f" and bool((np.isinf(made) & ~np.isinf(found)).any()) or (
            found.dtype.kind in "iu" and bool(np.isinf(made).any())):
        raise wrong(f"data has a number that is too large for {datatype(dtype)}.", where,
                    'send smaller numbers, or "Infinity".')
    return made


def _words(dtype: np.dtype[Any]) -> str:
    return {"b": "booleans", "i": "whole numbers", "u": "whole numbers"}.get(dtype.kind, "numbers")


def _wanted(raw: Mapping[str, Any], entry: Entry, parameters: Mapping[str, Any]
            ) -> list[tuple[int, bool]]:
    """Positions of the outputs to send, and which of them as bytes."""
    positions = {n: i for i, (n, _) in enumerate(entry.outputs)}
    where = f"outputs of {entry.name}"
    default = _flag(parameters.get("binary_data_output", False), "binary_data_output", where)
    asked = raw.get("outputs")
    if asked is None:
        return [(i, default) for i in positions.values()]
    if not isinstance(asked, list) or not all(isinstance(o, dict) for o in asked):
        raise wrong(f"outputs are {shown(asked)}.", where, 'give a list such as [{"name": ...}].')
    made: dict[int, bool] = {}
    for output in asked:
        name = output.get("name")
        if not isinstance(name, str) or name not in positions:
            raise wrong(f"there is no output {shown(name)}.", where,
                        f"name them: {', '.join(positions) or 'none'}.")
        said = _mapping(output.get("parameters", {}), where).get("binary_data", default)
        made[positions[name]] = _flag(said, "binary_data", where)
    return [*made.items()]


def _flag(value: Any, name: str, where: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(f"{name} is {shown(value)}.", where, "give true or false.")
    return value


def answer(entry: Entry, request: Request, results: Sequence[Array]) -> tuple[bytes, int | None]:
    """The body of an answer.

    Args:
      entry: the function that was called.
      request: what was asked.
      results: its results.

    Returns:
      The bytes, and how many of them are JSON; None: all of them.

    Raises:
      RequestError: an output has no form in JSON.
    """
    outputs: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for position, binary in request.outputs:
        name, _ = entry.outputs[position]
        array = results[position]
        said: dict[str, Any] = {"name": name, "datatype": datatype(array.dtype),
                                "shape": list(array.shape)}
        if binary:
            parts.append(array.tobytes())
            said["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            said["data"] = _numbers(array, f"output {name!r} of {entry.name}")
        outputs.append(said)
    made: dict[str, Any] = {"model_name": entry.name, "model_version": "1", "outputs": outputs}
    if request.id:
        made["id"] = request.id
    head = json.dumps(made, allow_nan=False, separators=(",", ":")).encode()
    return b"".join([head, *parts]), len(head) if parts else None


def _numbers(array: Array, where: str) -> list[Any]:
    """An array as JSON has it: flat."""
    if array.dtype.kind == "c":
        raise RequestError(400, f"{datatype(array.dtype)} has no form in JSON.", where,
                           'ask for bytes: "parameters": {"binary_data_output": true}.')
    flat = array.reshape(-1)
    if array.dtype.kind in "biu":
        return flat.tolist()
    if array.dtype.kind != "f":  # bfloat16 and its like
        flat = flat.astype(np.float32)
    if bool(np.isfinite(flat).all()):
        return flat.tolist()
    return [x if math.isfinite(x) else "NaN" if math.isnan(x) else
            "Infinity" if x > 0 else "-Infinity" for x in flat.tolist()]
