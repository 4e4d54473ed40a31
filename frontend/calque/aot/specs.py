"""Types and arrays written as text: `f32[8,128]`, `{"w": f32[3,2], "b": [f32[2]]}`, `i32[3]=1,2,3`.

What `aot.compile` and the command line take.  Start reading at `parse_spec`.
Imports core.dtypes and tracing.ShapeDtypeStruct.
"""
from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of
from calque.core.dims import SymbolicScope, parse_dims, symbolic_shape
from calque.core.errors import explain
from calque.core.types import Ndarray
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.trees import util as tree_util

_SPEC = re.compile(r"([A-Za-z]\w*)(?:<fry>)?\s*(?:\[([^\[\]]*)\])?")
_TOKEN = re.compile(r"""\s*(?:(?P<string>"[^"]*"|'[^']*')|(?P<mark>[{}()\[\]:,])
                        |(?P<word>[A-Za-z]\w*(?:<fry>)?(?:\s*\[[^\[\]{}:"']*\])?)
                        |(?P<number>\d+)|(?P<other>\S))""", re.VERBOSE)


class SpecError(ValueError):
    """A type or an array written as text cannot be read."""


def _fail(what: str, fix: str) -> SpecError:
    return SpecError(f"{what}\n  Fix: {fix}")


@functools.cache
def _names() -> dict[str, Any]:
    """Every spelling of a dtype: f32 and float32, f8_e4m3fn and f8e4m3fn, bool, pred and i1."""
    known: dict[str, Any] = {}
    for dtype in dtypes.ALL:
        short = dtypes.short_name(dtype)
        known |= {dtype.name: dtype, short: dtype, short.replace("_", ""): dtype}
    return known | {"pred": dtypes.bool_, "i1": dtypes.bool_, "key": dtypes.key_dtype}


def parse_dtype(name: str) -> Any:
    """The dtype of a name: f32, bf16, i8, u64, bool (pred, i1), c64, f8e4m3fn, or NumPy's name."""
    try:
        return _names()[name]
    except KeyError:
        shorts = ", ".join(dtypes.short_name(d) for d in dtypes.ALL)
        raise _fail(f"unknown dtype {name!r}.",
                    f"use one of {shorts}, or NumPy's name (float32, ...).") from None


def parse_spec(text: str, scope: SymbolicScope | None = None) -> ShapeDtypeStruct:
    """Shape and dtype of a text such as 'f32[8,128]'; without brackets, a scalar.  With a scope,
    sizes may be dimensions that are known at the call only: 'f32[b,2*n]'.

    Raises:
      SpecError: the text is not a dtype with sizes.

    Example:
      >>> parse_spec("bf16[2, 3]")
      ShapeDtypeStruct(shape=(2, 3), dtype=bfloat16)
      >>> parse_spec("i32").shape
      ()
    """
    found = _SPEC.fullmatch(text.strip())
    if found is None:
        raise _fail(f"{text!r} is not a type: a dtype and, in brackets, the sizes are expected.",
                    "write it like f32[8,128], or f32 for a scalar.")
    if scope is not None and found[2] and not re.fullmatch(r"[\d\s,?*-]*", found[2]):
        return ShapeDtypeStruct(_symbolic(text, found[2], scope), parse_dtype(found[1]))
    sizes = [s.strip() for s in (found[2] or "").split(",")]
    if sizes == [""]:
        sizes = []
    for size in sizes:
        if not (size.isascii() and size.isdigit()):
            raise _fail(f"{text!r}: {size!r} is not a size.",
                        "write each size as a number, like f32[8,128].")
    return ShapeDtypeStruct([int(s) for s in sizes], parse_dtype(found[1]))


def _symbolic(text: str, sizes: str, scope: SymbolicScope) -> tuple[Any, ...]:
    try:
        return parse_dims(sizes, scope)
    except ValueError as error:
        what = str(error).split("\n", 1)[0].removeprefix("syntax error in symbolic shape ")
        raise _fail(f"{text!r}: {what}", "write sizes as numbers and names, like f32[b,128], "
                    "f32[2*b], f32[b + 1].") from None


# ---- trees of types
def parse_tree(text: str, scope: SymbolicScope | None = None) -> Any:
    """A tree of ShapeDtypeStructs: types in dictionaries, lists, tuples; None is an empty tree.

    Example:
      >>> parse_tree('{"w": f32[3,2], "b": [f32[2]]}')["b"]
      [ShapeDtypeStruct(shape=(2,), dtype=float32)]
    """
    parser = _TreeParser(text, scope)
    tree = parser.tree()
    parser.end()
    return tree


class _TreeParser:
    """Recursive descent over the tokens of a text."""

    def __init__(self, text: str, scope: SymbolicScope | None) -> None:
        self.text, self.scope = text, scope
        self.tokens = [(str(m.lastgroup), m[m.lastgroup or 0])
                       for m in self._matches(text.strip())]
        self.at = 0

    @staticmethod
    def _matches(text: str) -> Iterator[re.Match[str]]:
        return _TOKEN.finditer(text)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def fail(self, token: str, wanted: str) -> SpecError:
        met = f"{token!r}" if token else "the end"
        return _fail(f"{self.text!r}: {wanted} is expected where {met} is.",
                     'write it like f32[8,128] or {"w": f32[3,2], "b": [f32[2]]}.')

    def expect(self, mark: str) -> None:
        _, token = self.take()
        if token != mark:
            raise self.fail(token, repr(mark))

    def end(self) -> None:
        kind, token = self.peek()
        if kind != "end":
            raise self.fail(token, "the end")

    def tree(self) -> Any:
        kind, token = self.take()
        if token == "{":
            return dict(self.items("}", self.pair))
        if token == "[":
            return self.items("]", self.tree)
        if token == "(":
            return tuple(self.items(")", self.tree))
        if token in ("None", "null"):
            return None
        if kind == "word":
            return parse_spec(token, self.scope)
        raise self.fail(token, "a type")

    def pair(self) -> tuple[Any, Any]:
        kind, token = self.take()
        if kind not in ("string", "word", "number"):
            raise self.fail(token, "a key")
        key = int(token) if kind == "number" else token.strip("\"'")
        self.expect(":")
        return key, self.tree()

    def items(self, close: str, one: Any) -> list[Any]:
        found = []
        while self.peek()[1] != close:
            found.append(one())
            if self.peek()[1] != close:
                self.expect(",")
        self.take()
        return found


def as_specs(tree: Any, scope: SymbolicScope | None = None) -> Any:
    """A tree whose leaves are types as text, ShapeDtypeStructs or arrays; texts are parsed."""
    return tree_util.tree_map(lambda x: parse_tree(x, scope) if isinstance(x, str) else x, tree)


def symbolic_args_specs(args: Any, shapes_specs: Any, *, constraints: Sequence[str] = (),
                        scope: SymbolicScope | None = None) -> Any:
    """The types of arguments, with dimensions that are known at the call only.

    Args:
      args: a tree of arrays or ShapeDtypeStructs.
      shapes_specs: a text as for symbolic_shape, or a tree of texts that `args` extends (None: the
        sizes of the argument).
      constraints: as for symbolic_shape.
      scope: the scope of dimensions made before.

    Returns:
      A tree like args, of ShapeDtypeStructs.

    Raises:
      ValueError: a text cannot be read or does not go with its argument, or a scope is given
        together with constraints.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import export
      >>> export.symbolic_args_specs((jnp.ones((2, 3)), jnp.ones(3)), "b, ...")
      (ShapeDtypeStruct(shape=(b, 3), dtype=float32), ShapeDtypeStruct(shape=(b,), dtype=float32))
    """
    if scope is not None and constraints:
        raise ValueError(explain("constraints belong to a scope, and a scope is given.",
                                 fix="give the constraints to SymbolicScope(...)."))
    made = SymbolicScope(constraints) if scope is None else scope
    if isinstance(args, tuple) and isinstance(shapes_specs, list):
        shapes_specs = tuple(shapes_specs)
    leaves, tree = tree_util.tree_flatten(args)
    texts: list[Any] = []
    tree_util.tree_map(lambda text, part: texts.extend([text] * len(tree_util.tree_leaves(part))),
                       shapes_specs, args, is_leaf=lambda x: x is None or isinstance(x, str))

    def spec(x: Any, text: Any) -> ShapeDtypeStruct:
        a = aval_of(x) if not hasattr(x, "shape") else x
        return ShapeDtypeStruct(symbolic_shape(text, scope=made, like=tuple(a.shape)), a.dtype,
                                weak_type=getattr(a, "weak_type", False))

    return tree.unflatten([spec(x, text) for x, text in zip(leaves, texts, strict=True)])


def has_64_bits(tree: Any) -> bool:
    """Whether a leaf has a dtype that exists only with x64."""
    wide = {"int64", "uint64", "float64", "complex128"}
    return any(getattr(x, "dtype", None) is not None and x.dtype.name in wide
               for x in tree_util.tree_leaves(tree))


# ---- arrays
def parse_array(text: str) -> Ndarray:
    """The array of a text such as 'f32[2,3]=1,2,3,4,5,6'; one value fills the whole array.

    Raises:
      SpecError: unknown type, a value that the dtype cannot hold, or the wrong number of values.

    Example:
      >>> parse_array("i32[2,2]=1,2,3,4")
      array([[1, 2],
             [3, 4]], dtype=int32)
    """
    left, _, right = text.partition("=")
    spec = parse_spec(left)
    if dtypes.is_key(spec.dtype):
        raise _fail(f"{text!r}: keys cannot be written as text.",
                    "give their words, as u32[2]=0,1.")
    values = [v for v in re.split(r"[\s,]+", right.strip()) if v]
    if len(values) not in (spec.size, 1):
        raise _fail(f"{text!r}: {left.strip()} has {spec.size} elements, but {len(values)} values "
                    "are given.", "give one value for each element, or one for all.")
    numbers = [_number(v, spec.dtype) for v in values]
    if len(numbers) != spec.size:
        return np.full(spec.shape, numbers[0], spec.dtype)
    return np.array(numbers, spec.dtype).reshape(spec.shape)


_BOOLS = {"true": True, "1": True, "false": False, "0": False}


def _number(text: str, dtype: Any) -> Any:
    """One value, exact in the dtype as far as Python can say."""
    try:
        if dtype == dtypes.bool_:
            return _BOOLS[text.lower()]
        if dtypes.is_integer(dtype):
            value = int(text, 0)
            limits = dtypes.iinfo(dtype)
            if not int(limits.min) <= value <= int(limits.max):
                raise ValueError
            return np.array(value, dtype)[()]
        if dtypes.is_complex(dtype):
            return complex(text.replace("i", "j") if "inf" not in text else text)
        return np.array(float(text)).astype(dtype)[()]
    except (KeyError, ValueError, OverflowError):
        raise _fail(f"{text!r} is not a value of dtype {dtype.name}.",
                    "write numbers separated by commas, like f32[3]=1,2.5,-3e4.") from None
