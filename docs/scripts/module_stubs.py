"""Stubs of public modules, for stubs.py: what type checkers and editors know of functions that are
made by tables and decorators, from their signatures and docstrings.

Start reading at `stub_of`.
"""
from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import types
from typing import Any

import stub_types

from calque.core.primitive import registry

PACKAGE = pathlib.Path(__file__).parents[2] / "frontend" / "calque"
MODULES = (
    "", "numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "nn", "nn.initializers",
    "random", "scipy.special", "scipy.linalg", "scipy.fft", "scipy.signal", "scipy.ndimage",
    "scipy.stats", "scipy.integrate", "scipy.cluster.vq", "tree")
_HEAD = '''"""Made by `python docs/scripts/stubs.py` from signatures and docstrings."""
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

'''
_VARIABLES = "".join(f'{n} = {"ParamSpec" if n in ("_P",) else "TypeVar"}("{n}")\n'
                     for n in ("_P", "_R", "_T", "_A", "_B", "_X", "_Y")) + (
    '_F = TypeVar("_F", bound=Callable[..., Any])\n')
_BUILTINS = {"Any", "None", "bool", "bytes", "complex", "dict", "float", "int", "list", "object",
             "set", "str", "tuple", "Callable", "Iterable", "Iterator", "Sequence", "Literal",
             "ArrayLike", "DTypeLike", "Array", "ModuleType", "Device", "Mesh"}
_ALIASES = {"Ndarray": "np.ndarray[Any, Any]", "Function": "Callable[..., Any]",
            "Dtype": "np.dtype[Any]", "Shape": "tuple[int, ...]", "Axes": "tuple[int, ...]",
            "np.ndarray": "np.ndarray[Any, Any]"}


def path_of(module: str) -> pathlib.Path:
    """Where the stub of a module lies."""
    base = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    return base / "__init__.pyi" if base.is_dir() else base.with_suffix(".pyi")


def _annotation(value: Any) -> str:
    """An annotation of ours as the stub writes it; what it does not know is Any."""
    text = value if isinstance(value, str) else inspect.formatannotation(value)
    for ours, plain in _ALIASES.items():
        text = re.sub(rf"(?<![\w.]){re.escape(ours)}(?![\w.\[])", plain, text)
    known = all(word in _BUILTINS or word in ("np", "ndarray", "dtype") or word == "..."
                for word in re.findall(r"\w+", re.sub(r"Literal\[[^\]]*\]|'[^']*'", "", text)))
    return text if known else "Any"


def _described(doc: str) -> dict[str, str]:
    """What Args says of each parameter."""
    found = re.search(r"Args:\n(.*?)(?:\n\n|\Z)", doc, re.S)
    texts: dict[str, str] = {}
    for line in re.sub(r"\n    +(?! )", " ", found[1] if found else "").splitlines():
        names, colon, text = line.strip().partition(": ")
        if colon:
            texts |= {name.strip(" *"): text for name in names.split(",")}
    return texts


_ARRAY = re.compile(r"(?:an? |the )?(?:\w+ ){0,2}(?:array|matrix|vector)\b(?! of shapes)", re.I)
_MORE = re.compile(r"\b(tuple|list|tree|sequence|or an?|or None|key|pair|function|arrays)\b", re.I)


def _parameter_type(module: str, name: str, p: inspect.Parameter, text: str) -> str:
    declared = "Any" if p.annotation is p.empty else _annotation(p.annotation)
    if p.name == "out":
        return "None"
    if declared not in ("Any", "object"):
        return declared
    if (loose := stub_types.LOOSE.get(f"{module}.{name}")) is not None and (
            not loose or p.name in loose):
        return "Any"
    if p.name in stub_types.PARAMETERS and module != "lax":
        kind = stub_types.PARAMETERS[p.name]
        return f"{kind} | None" if p.default is None and "None" not in kind else kind
    if _ARRAY.match(text) and not _MORE.search(re.split(r"[;.:(]", text)[0]):
        return "ArrayLike | None" if p.default is None else "ArrayLike"
    return "Any"


def _result_type(module: str, name: str, f: Any, doc: str) -> str:
    full = f"{module}.{name}".lstrip(".")
    if full in stub_types.RESULTS:
        return stub_types.RESULTS[full]
    declared = inspect.signature(f).return_annotation
    plain = "Any" if declared is inspect.Signature.empty else _annotation(declared)
    if module not in ("", "tree") and plain.startswith(("tuple[", "list[")):
        return plain.replace("Any", "Array")  # of functions of arrays
    if plain not in ("Any", "object", "Callable[..., Any]"):
        return plain
    found = re.search(r"Returns:\n\s+(.*?)(?:\n\n|\n\S|\Z)", doc, re.S)
    text = re.sub(r"\s+", " ", found[1]) if found else ""
    first = re.split(r"[.;:(]", text)[0]
    if re.match(r"A list of \w*\s?(arrays|vectors|matrices)", text):
        return "list[Array]"
    if re.match(r"A (tuple of \w*\s?(arrays|vectors)|pair of arrays)", text):
        return "tuple[Array, ...]"
    if re.match(r"(Nothing|None)\.", text):
        return "None"
    if re.match(r"A function \(key, shape", text):
        return "Callable[..., Array]"
    if re.match(r"A context manager", text):
        return "contextlib.AbstractContextManager[Any]"
    if re.match(r"A bool\b(?! (array|scalar|vector))", text):
        return "bool"
    if re.match(r"(An?|The|One)? ?([\w-]+ ){0,3}(array|matrix|vector|scalar)\b(?!s)", text,
                re.I) and not re.search(r", or|\bor (an? )?(tuple|list|pair|\()|\btree|\btuple",
                                        first):
        return "Array"
    return plain if plain != "object" else "Any"


def _function(module: str, name: str, f: Any, changed: dict[str, str] | None = None,
              result: str = "") -> str:
    """A function's line, its types by annotation, docstring and table; changed, result: of one of
    its forms."""
    doc, changed = inspect.getdoc(f) or "", changed or {}
    described = _described(doc)
    parts: list[str] = []
    star = slash = False
    for p in inspect.signature(f).parameters.values():
        if slash and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
            slash = False
        slash = slash or p.kind is p.POSITIONAL_ONLY
        needed = f"{p.name}!" in changed
        if (p.kind is p.KEYWORD_ONLY or needed) and not star:
            parts.append("*")
            star = True
        kind = changed.get(p.name, changed.get(f"{p.name}!", "")) or _parameter_type(
            module, name, p, described.get(p.name, ""))
        if p.kind is p.VAR_POSITIONAL:
            star = True
            parts.append(f"*{p.name}: {kind}")
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: {kind}")
        else:
            parts.append(f"{p.name}: {kind}" + ("" if p.default is p.empty or needed else " = ..."))
    if slash:
        parts.append("/")
    result = result or _result_type(module, name, f, doc)
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


def _forms(module: str, name: str, f: Any) -> str:
    """A function with its overloads."""
    forms = stub_types.OVERLOADS.get(f"{module}.{name}")
    if forms is None:
        return _function(module, name, f)
    lines = [_function(module, name, f, changed, result) for changed, result in forms]
    every = " | ".join(dict.fromkeys(result for _, result in forms))
    lines.append(_function(module, name, f, None, every))
    return "\n".join(f"@overload\n{line}" for line in lines)


def _made_module(module: str, name: str, value: types.ModuleType) -> str:
    """A module that has no file: an object with functions."""
    lines = [f"class _{name}(ModuleType):"]
    for inner in sorted(value.__all__):
        lines += ["    @staticmethod", "    " + _function(module, inner, getattr(value, inner))]
    return "\n".join([*lines, f"{name}: _{name}"])


def _entry(module: str, name: str, value: Any) -> str:
    full = f"{module}.{name}".lstrip(".")
    special = stub_types.SPECIAL.get(full if module else f"calque.{name}")
    if special:
        return special
    if isinstance(value, types.ModuleType) and not hasattr(value, "__file__"):
        return _made_module(module, name, value)
    if isinstance(value, types.ModuleType):
        return f"from {value.__name__.rpartition('.')[0]} import {name} as {name}"
    if type(value).__name__ == "ufunc":
        return f"{name}: _Ufunc{value.nin}"
    if isinstance(value, float):
        return f"{name}: float"
    if inspect.isroutine(value):
        return _forms(module, name, value)
    if (isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")
            and all("Any" in str(a) for a in value.__annotations__.values())):
        return f"class {name}(NamedTuple):\n" + "\n".join(
            f"    {field}: Array" for field in value._fields)
    if isinstance(value, type) and value.__module__.startswith("calque."):
        home = _home(value, module)
        if home:
            return f"from {home} import {value.__name__} as {name}"
    return f"{name}: None" if value is None else f"{name}: Any"


def _home(value: type, stubbed: str) -> str:
    """The module whose file defines a class (public ones say where users look for them)."""
    file = inspect.getsourcefile(value) if value.__module__ != "builtins" else None
    if file is None:
        return ""
    place = pathlib.Path(file)
    for room in PACKAGE.iterdir():  # lowering and runtime are links
        if place.is_relative_to(room.resolve()):
            parts = (room.name, *place.relative_to(room.resolve()).with_suffix("").parts)
            home = ".".join(("calque", *(p for p in parts if p != "__init__")))
            return "" if home == f"calque.{stubbed}" else home
    return ""


_UFUNC = """
class _Ufunc{n}:
    nin: int
    nout: int
    identity: Any
    def __call__(self, {parameters}, /) -> Array: ...
    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = ..., /, *,
           inplace: bool = ...) -> Array: ...
    def reduce(self, a: ArrayLike, axis: Any = ..., dtype: DTypeLike | None = ...,
               out: None = ..., keepdims: bool = ..., initial: ArrayLike | None = ...,
               where: ArrayLike | None = ...) -> Array: ...
    def accumulate(self, a: ArrayLike, axis: int = ..., dtype: DTypeLike | None = ...,
                   out: None = ...) -> Array: ...
    def reduceat(self, a: ArrayLike, indices: Any, axis: int = ...,
                 dtype: DTypeLike | None = ..., out: None = ...) -> Array: ...
    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array: ...
"""


def _besides(module: str, mod: types.ModuleType) -> set[str]:
    """Public names that `import *` does not give."""
    found = {n for n, v in vars(mod).items() if isinstance(v, types.ModuleType)
             and v.__name__ == f"{mod.__name__}.{n}" and f"{module}.{n}" in MODULES}
    found |= {n for n in ("__version__", "__array_api_version__", "__array_namespace_info__")
              if hasattr(mod, n)}
    if module == "lax":
        names = [n.replace("-", "_") for n in registry]
        found |= {f"{n}_p" for n in names if n.isidentifier()}
    return found


def stub_of(module: str) -> str:
    """The text of a module's stub."""
    full = f"calque.{module}".rstrip(".")
    mod = importlib.import_module(full)
    lines, own = [], path_of(module).name != "__init__.pyi"
    listed = list(mod.__all__)
    names = sorted({*listed, *_besides(module, mod)})
    shadowed = {n for n in names if n in ("bool", "int", "float", "complex", "object", "map",
                                          "bytes", "str", "list", "tuple", "set", "dict", "all")}
    for name in names:
        lines.append(_entry(module, name, getattr(mod, name)))
    if own:  # what other modules of ours take from it
        for name, value in sorted(vars(mod).items()):
            if (name not in names and not name.startswith("__") and not isinstance(
                    value, types.ModuleType) and getattr(value, "__module__", full) == full):
                lines.append(f"{name}: Any")
    if not module:
        lines = [re.sub(r"^__version__: Any", "__version__: str", line) for line in lines]
    ufuncs = "".join(_UFUNC.format(n=n, parameters=", ".join(
        f"x{i}: ArrayLike" for i in range(n))) for n in (1, 2)
        if any(line.endswith(f": _Ufunc{n}") for line in lines))
    text = "\n".join(lines)
    for name in shadowed:  # numpy.bool is a scalar type; builtins.bool is meant in types
        text = re.sub(rf"(?<=[:>|\[,] ){name}\b(?=[\s,)|\]:=])|(?<=\[){name}\b", f"builtins.{name}",
                      text)
    imports = "import builtins\n" * bool(shadowed)
    given = "from calque.dispatch.array import Array{}\n" \
        "from calque.typing import ArrayLike{}, DTypeLike{}\n"
    shown = [" as " + n if n in names else "" for n in ("Array", "ArrayLike", "DTypeLike")]
    head = _HEAD.replace("import numpy as np\n", imports + "import numpy as np\n")
    text = "\n".join(line for line in text.splitlines()
                     if not re.match(r"from calque\.dispatch\.array import Array as Array$", line))
    extra = ""
    if not module:
        extra = ("from calque.distributed.checkpoints import load as _load, save as _save\n"
                 "from calque.core.mesh import Mesh\n"
                 "from calque.dispatch.stages import Lowered, Traced\n")
    text += f"\n\n__all__ = {listed}".replace("'", '"')
    return (head + given.format(*shown) + extra + "\n" + _VARIABLES + ufuncs
            + stub_types.HEAD.get(full, "") + "\n" + text + "\n")


def stubs() -> dict[pathlib.Path, str]:
    """Every stub by its path."""
    return {path_of(m): stub_of(m) for m in MODULES}
