"""Writes what type checkers and editors know of calque: stubs of public modules (module_stubs.py)
and frontend/calque/dispatch/array.pyi, of Array, whose operators and methods are installed at run
time (calque.numpy.methods).

    python docs/scripts/stubs.py [--check]
"""
from __future__ import annotations

import inspect
import pathlib
import re
import sys
from typing import Any

import module_stubs

import calque
from calque.dispatch import array
from calque.numpy import at

ROOT = pathlib.Path(__file__).parents[2]
PATH = ROOT / "frontend" / "calque" / "dispatch" / "array.pyi"
HEAD = '''"""Made by `python docs/scripts/stubs.py`: array.py with what is installed at run time."""
from collections.abc import Generator, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.formats import Format
from calque.core.sharding import Sharding
from calque.core.types import Ndarray, Shape
from calque.runtime import Buffer, Device
from calque.typing import ArrayLike, DTypeLike

HOST_BYTES: int

'''
RETURNS = {
    "__bool__": "bool", "__int__": "int", "__float__": "float", "__complex__": "complex",
    "__index__": "int", "__len__": "int", "__hash__": "int", "__str__": "str", "__repr__": "str",
    "__format__": "str", "__contains__": "bool", "__iter__": "Iterator[Array]",
    "__reversed__": "Iterator[Array]", "__divmod__": "tuple[Array, Array]",
    "__rdivmod__": "tuple[Array, Array]", "__setitem__": "None", "nonzero": "tuple[Array, ...]",
    "item": "Any", "tolist": "list[Any]", "tobytes": "bytes", "__array_namespace__": "ModuleType",
    "at": "_IndexUpdateHelper", "flat": "Array", "addressable_shards": "list[Any]",
    "global_shards": "list[Any]", "addressable_data": "Array", "sharding": "Sharding",
    "device": "Device | Sharding", "__dlpack__": "Any",
    "unsafe_buffer_pointer": "int", "platform": "str",
    "on_device_size_in_bytes": "int", "is_fully_replicated": "bool",
    "is_fully_addressable": "bool", "dtype": "np.dtype[Any]", "__numpy_dtype__": "Any",
    "__reduce__": "Any"}


def _plain(annotation: Any) -> str:
    """An annotation as the stub writes it; what it does not import is Any."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    if "empty" in text or "Callable" in text:
        return "Any"
    return text if re.fullmatch(r"[\w\[\]., |]+", text) else "Any"


_OPERANDS = {"other", "b", "v", "where", "initial", "mean"}  # arrays, in methods
_TYPES = {"dtype": "DTypeLike | None", "keepdims": "bool", "axis": "int | Sequence[int] | None",
          "ndigits": "int | None", "decimals": "int", "offset": "int", "axis1": "int",
          "axis2": "int", "order": "str | None", "indices": "ArrayLike"}


def _parameters(f: Any) -> str:
    """The parameters of a method, their types by their names; the first is self."""
    parts, star = [], False
    for i, p in enumerate(inspect.signature(f).parameters.values()):
        if i == 0:
            parts.append("self")
            if p.kind is not p.VAR_POSITIONAL:
                continue
        kind = _TYPES.get(p.name, "Any")
        if p.default is None and kind != "Any" and "None" not in kind:
            kind += " | None"
        if p.name in _OPERANDS:
            kind = "ArrayLike | None" if p.default is None else "ArrayLike"
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: Any")
            star = True
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: Any")
        else:
            if p.kind is p.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            parts.append(f"{p.name}: {kind}" + ("" if p.default is p.empty else " = ..."))
    return ", ".join(parts)


def _member(name: str, value: Any) -> list[str]:
    if isinstance(value, property):
        result = RETURNS.get(name)
        if result is None:
            made = getattr(value.fget, "__annotations__", {}).get("return", "Array")
            result = "Array" if made == "Any" else _plain(made)
        return ["    @property", f"    def {name}(self) -> {result}: ..."]
    if not callable(value):
        return []
    result = RETURNS.get(name)
    if result is None:
        made = getattr(value, "__annotations__", {}).get("return", "Array")
        result = "Array" if made in ("Any", Any) else _plain(made)
    if name in ("__eq__", "__ne__"):
        return [f"    def {name}(self, other: ArrayLike) -> Array: ...  # type: ignore[override]"]
    start = "    async def" if inspect.iscoroutinefunction(value) else "    def"
    return [f"{start} {name}({_parameters(value)}) -> {result}: ..."]


def _function(name: str, f: Any) -> str:
    signature = inspect.signature(f)
    parts = [f"{p.name}: {_plain(p.annotation)}" + ("" if p.default is p.empty else " = ...")
             for p in signature.parameters.values()]
    return f"def {name}({', '.join(parts)}) -> {_plain(signature.return_annotation)}: ..."


def stub() -> str:
    """The text of array.pyi."""
    assert calque.numpy  # it installs the methods
    lines = ["class _IndexUpdateHelper:",
             "    def __getitem__(self, index: Any) -> _IndexUpdateRef: ...", "",
             "class _IndexUpdateRef:"]
    for name, f in sorted(vars(at.Ref).items()):
        if inspect.isfunction(f) and not name.startswith("_"):
            values = _parameters(f).replace("values: Any", "values: ArrayLike")
            lines.append(f"    def {name}({values}) -> Array: ...")
    lines += ["", "class Array:",
             "    __array_priority__: int",
             "    aval: ShapedArray",
             "    _own: Buffer | None",
             "    _pending: Any",
             "    def __init__(self, buffer: Buffer | None, aval: ShapedArray, "
             "pending: Any = ...) -> None: ..."]
    for name, value in sorted(vars(array.Array).items()):
        skip = ("__init__", "__slots__", "__module__", "__doc__", "__annotations__",
                "__array_priority__", "__weakref__", "aval", "_own", "_pending")
        if name not in skip and not name.startswith("_Array"):
            lines += _member(name, value)
    for name, f in vars(array).items():
        own = inspect.isroutine(f) and f.__module__ == array.__name__
        if own and not name.startswith("_"):
            lines += ["", _function(name, f)] if name == "array_repr" else [_function(name, f)]
    return HEAD + "\n".join(lines) + "\n"


def stubs() -> dict[pathlib.Path, str]:
    """Every stub by its path."""
    return {PATH: stub(), **module_stubs.stubs()}


if __name__ == "__main__":
    for path, text in stubs().items():
        if "--check" not in sys.argv:
            path.write_text(text)
            print(f"wrote {path}")
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path} is not up to date: run python docs/scripts/stubs.py")
