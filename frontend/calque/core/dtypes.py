"""Dtypes and their promotion: the lattice of JAX's "type promotion semantics" page, weak types
included, and the 32/64-bit switch.

`promote(dtype, weak pairs) -> (dtype, weak)` is the heart; `scalar_type_of`, `canonical` and
`result_type` serve the rest.  Imports core.config and core.errors only.
"""
from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from calque.core.config import config
from calque.core.errors import TypePromotionError, explain
from calque.core.source import asked_by_ours
from calque.core.types import Dtype, Function

bool_ = np.dtype(bool)
int32, float32 = np.dtype("int32"), np.dtype("float32")
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float0 = np.dtype([("float0", np.void, 0)])  # tangent dtype of integers and booleans


def _of_ml_dtypes(*names: str) -> tuple[Dtype, ...]:
    """The dtypes of these names that the installed ml_dtypes has."""
    return tuple(np.dtype(getattr(ml_dtypes, n)) for n in names if hasattr(ml_dtypes, n))


FLOAT8 = _of_ml_dtypes(
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
FLOAT4 = _of_ml_dtypes("float4_e2m1fn")
FLOAT6 = _of_ml_dtypes("float6_e2m3fn", "float6_e3m2fn")  # known by name: no array has them
SMALL_FLOATS = (*FLOAT8, *FLOAT4)
# integers of less than a byte; of these and of FLOAT4 an element takes a byte in memory
SMALL_SIGNED = _of_ml_dtypes("int1", "int2", "int4")
SMALL_UNSIGNED = _of_ml_dtypes("uint1", "uint2", "uint4")
SMALL_INTEGERS = (*SMALL_SIGNED, *SMALL_UNSIGNED)
_SMALL = frozenset((*SMALL_FLOATS, *SMALL_INTEGERS))

_NARROW = {np.dtype(a): np.dtype(b) for a, b in (
    ("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"),
    ("complex128", "complex64"))}

SIGNED = (*SMALL_SIGNED, *(np.dtype(f"int{n}") for n in (8, 16, 32, 64)))
UNSIGNED = (*SMALL_UNSIGNED, *(np.dtype(f"uint{n}") for n in (8, 16, 32, 64)))
FLOATS = (np.dtype("float16"), bfloat16, np.dtype("float32"), np.dtype("float64"))
COMPLEX = (np.dtype("complex64"), np.dtype("complex128"))
ALL = (bool_, *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX, *SMALL_FLOATS)
_KNOWN = frozenset(ALL)


@dataclass(frozen=True)
class Stream:
    """The functions of a stream of a library's own, of words of `shape`:

    seed(integer) -> words; split(words, shape) -> (*shape, *words); random_bits(words, bit_width,
    shape) -> unsigned integers; fold_in(words, uint32) -> words.
    """

    shape: tuple[int, ...]
    seed: Function
    split: Function
    random_bits: Function
    fold_in: Function


class KeyDtype:
    """Dtype of typed PRNG keys of one implementation, such as `key<fry>` of threefry2x32: a key is
    a few uint32 words inside."""

    kind = "K"
    char = "K"

    def __init__(self, tag: str, impl: str, words: int, stream: Stream | None = None) -> None:
        self.tag, self.impl, self.words = tag, impl, words
        self.stream = stream  # None: one of ours, whose primitives are compiled
        self.name, self.itemsize = f"key<{tag}>", 4 * words

    @property
    def type(self) -> Any:
        """The kind of scalars of it."""
        return prng_key

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDtype) and other.tag == self.tag and (
            other.stream == self.stream and (self.stream is None or other.impl == self.impl))

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> Any:
        if self.stream is not None:
            return KeyDtype, (self.tag, self.impl, self.words, self.stream)
        return key_dtype_of, (self.impl,)


class extended(np.generic):  # noqa: N801 (JAX's name)
    """Abstract kind of the dtypes that NumPy does not have."""


class prng_key(extended):  # noqa: N801 (JAX's name)
    """Abstract kind of PRNG key dtypes, for issubdtype."""


key_dtype = KeyDtype("fry", "threefry2x32", 2)
KEYS = {k.impl: k for k in (
    key_dtype, KeyDtype("fry4", "threefry4x32", 4), KeyDtype("phx2", "philox2x32", 1),
    KeyDtype("phx4", "philox4x32", 2), KeyDtype("rbg", "rbg", 4),
    KeyDtype("urbg", "unsafe_rbg", 4))}


def key_dtype_of(impl: Any) -> KeyDtype:
    """The dtype of keys of an implementation: by its name, its tag ("fry") or itself."""
    impl = getattr(impl, "key_dtype", impl)  # (a record of extend.random)
    if isinstance(impl, KeyDtype):
        return impl
    for k in KEYS.values():
        if impl in (k.impl, k.tag, k.name):
            return k
    if not isinstance(impl, str):
        raise TypeError(f"unrecognized type {type(impl)} for specifying PRNG implementation.\n"
                        "  Fix: name one, or pass the dtype of keys.")
    known = ", ".join(f'"{name}"' for name in KEYS)
    raise ValueError(f'unrecognized PRNG implementation "{impl}". Did you mean one of: {known}?\n'
                     "  Fix: name one of those.")


def is_key(dtype: Any) -> bool:
    return isinstance(dtype, KeyDtype)


# ---- kinds
def is_float(dtype: Any) -> bool:
    """Real floating point, those of ml_dtypes included (their NumPy kind is 'V')."""
    return dtype in _FLOAT_SET


_CHOSEN = frozenset(("float16", "float32", "float64", "complex64", "complex128"))


def chooses(bools: Any, dtype: Any) -> bool:
    """Whether a product of bools, as numbers of a dtype, and others of it is a choice between those
    and 0 (lowering/passes/masks)."""
    return bools == bool_ and dtype.name in _CHOSEN


def is_inexact(dtype: Any) -> bool:
    return dtype in _FLOAT_SET or dtype in COMPLEX


def is_complex(dtype: Any) -> bool:
    return dtype in COMPLEX


def is_integer(dtype: Any) -> bool:
    return dtype in _SIGNED_SET or dtype in _UNSIGNED_SET


def is_whole(dtype: Any) -> bool:
    """An integer or a boolean."""
    return dtype == bool_ or is_integer(dtype)


def is_signed(dtype: Any) -> bool:
    """A signed integer."""
    return dtype in _SIGNED_SET


def is_unsigned(dtype: Any) -> bool:
    """An unsigned integer (no boolean)."""
    return dtype in _UNSIGNED_SET


def is_small(dtype: Any) -> bool:
    """Of ml_dtypes and one byte: the floats of 8 and 4 bits, the integers of 4 and fewer."""
    return dtype in _SMALL


_FLOAT_SET = frozenset((*FLOATS, *SMALL_FLOATS))
_SIGNED_SET, _UNSIGNED_SET = frozenset(SIGNED), frozenset(UNSIGNED)


# NumPy's are not among them; also those that no array has here
_EXTRA: dict[type, tuple[type, ...]] = {
    **{t: (np.floating, np.inexact, np.number, np.generic) for n, t in vars(ml_dtypes).items()
       if n.startswith(("float", "bfloat")) and isinstance(t, type)},
    **{d.type: (np.signedinteger, np.integer, np.number, np.generic) for d in SMALL_SIGNED},
    **{d.type: (np.unsignedinteger, np.integer, np.number, np.generic) for d in SMALL_UNSIGNED}}


def issubdtype(a: Any, b: Any) -> bool:
    """Like np.issubdtype, knowing the numbers of ml_dtypes and keys (prng_key)."""
    if is_key(a):
        return isinstance(b, type) and issubclass(prng_key, b) or is_key(b)
    if isinstance(a, type) and issubclass(a, extended):
        return isinstance(b, type) and issubclass(a, b)
    if isinstance(b, type) and issubclass(b, extended):
        return False
    if not (isinstance(a, type) and issubclass(a, np.generic)):
        a = np.dtype(a)
        if a == float0:
            return b in (np.void, np.generic)
        if a.type in _EXTRA:
            if isinstance(b, type) and issubclass(b, np.generic) and b is not a.type:
                return b in _EXTRA[a.type]
            return bool(np.dtype(b) == a)
    elif a in _EXTRA:
        return issubdtype(np.dtype(a), b)
    if isinstance(b, type) and issubclass(b, np.generic):
        return bool(np.issubdtype(a, b))
    return bool(np.issubdtype(a, np.dtype(b)))


def itemsize_bits(dtype: Any) -> int:
    """The bits of an element (of fewer than 8, each takes a byte in memory).

    Args:
      dtype: what numpy.dtype takes.

    Returns:
      An int.

    Raises:
      ValueError: dtype is None.

    Example:
      >>> from calque import dtypes
      >>> dtypes.itemsize_bits("bfloat16")
      16
    """
    if dtype is None:
        raise ValueError("dtype cannot be None.\n  Fix: name one.")
    found = dtype if is_key(dtype) else np.dtype(dtype)
    if found in _SMALL or found in FLOAT6:
        return int(iinfo(found).bits if found in SMALL_INTEGERS else finfo(found).bits)
    return 8 * int(found.itemsize)


def scalar_type_of(x: Any) -> type:
    """The Python type of numbers of a dtype's kind.

    Args:
      x: a dtype, an array or a number.

    Returns:
      bool, int, float or complex.

    Raises:
      TypeError: it is of no such kind.

    Example:
      >>> from calque import dtypes
      >>> dtypes.scalar_type_of("bfloat16")
      <class 'float'>
    """
    if x is not None:
        found = x if isinstance(x, (type, str, np.dtype)) else getattr(x, "dtype", type(x))
        if not is_key(found):
            for kind, abstract in ((bool, np.bool_), (int, np.integer), (float, np.floating),
                                   (complex, np.complexfloating)):
                if issubdtype(np.dtype(found), abstract):
                    return kind
    raise TypeError(f"scalar_type_of: {x} is of no kind of numbers.\n  Fix: pass a dtype.")


# ---- the 32/64-bit switch
def canonical(dtype: Any) -> Dtype:
    """The dtype arrays really get: 64-bit ones are cut to 32 unless jax_enable_x64."""
    if is_key(dtype):
        return dtype
    if isinstance(dtype, type) and dtype in _PYTHON:
        return default_dtype(dtype)
    if isinstance(dtype, np.ndarray) or hasattr(dtype, "aval") and hasattr(dtype, "__array__"):
        raise ValueError(
            "Passing an array as a dtype argument is not supported; instead of dtype=arr use "
            "dtype=arr.dtype.")
    d: Dtype = np.dtype(dtype)
    if not config.jax_enable_x64:
        d = _NARROW.get(d, d)
    if d not in _KNOWN and d != float0:
        raise TypeError(
            f"dtype {d} is not a valid array dtype; only numbers and booleans are.\n"
            f"  Fix: use one of {', '.join(x.name for x in ALL)}.")
    return d


def is_wide(dtype: Any) -> bool:
    """Whether arrays get the dtype only while jax_enable_x64 is on."""
    return not is_key(dtype) and dtype in _NARROW


def default_dtype(python_type: type) -> Dtype:
    """int -> int32 (int64 with x64), float -> float32, complex -> complex64, bool -> bool."""
    wide: Dtype = np.dtype(python_type) if python_type is not int else np.dtype(np.int64)
    found: Dtype = wide if config.jax_enable_x64 else _NARROW.get(wide, wide)
    return found


_PYTHON: dict[type, str] = {bool: "b", int: "i*", float: "f*", complex: "c*"}
_NUMBERS = (int, float, complex)


def scalar_info(x: Any) -> tuple[Dtype, bool] | None:
    """(dtype, weak) of a Python scalar, None for anything else."""
    kind = type(x)
    if kind in _PYTHON:
        return default_dtype(kind), kind is not bool
    if kind is np.ndarray or isinstance(x, np.generic) or not isinstance(x, _NUMBERS):
        return None
    return scalar_info(plain_number(x))


def plain_number(x: Any) -> Any:
    """A number whose type is derived from int, float or complex (an IntEnum's member) as one of
    theirs; anything else as it is."""
    if type(x) in _PYTHON or isinstance(x, np.generic):
        return x
    for kind in _NUMBERS:
        if isinstance(x, kind):
            return kind(x)  # type: ignore[arg-type]
    return x


def _fits(x: int, dtype: Dtype) -> bool:
    limits = iinfo(dtype)
    return bool(limits.min <= x <= limits.max)


def check_fits(x: Any) -> None:
    """OverflowError for a Python int that no default integer can hold."""
    if isinstance(x, int) and not -0x80000000 <= x <= 0x7FFFFFFF:
        kind = default_dtype(int)
        if not _fits(x, kind):
            raise OverflowError(explain(
                f"Python int {x} too large to convert to {kind.name}.",
                fix="use a float, an array of a wider dtype, or enable x64."))


def held(x: Any, dtype: Dtype) -> Any:
    """A Python int beyond the default integers as a scalar of a dtype that holds it; anything else
    as it is."""
    if type(x) is int and not -0x80000000 <= x <= 0x7FFFFFFF and is_integer(dtype) and (
            _fits(x, dtype)):
        return dtype.type(x)
    return x


def wrapped(x: Any, dtype: Dtype) -> Any:
    """A Python int of 64 bits as it is converted to a dtype: what its bits are in that, if it is
    beyond the default integers; anything else as it is."""
    if type(x) is int and not -0x80000000 <= x <= 0x7FFFFFFF and -(2**63) <= x < 2**64:
        if dtype == np.bool_:
            return np.True_
        if is_integer(dtype):
            return np.uint64(x % 2**64).astype(dtype)
    return x


def whole(x: Any, to: Any) -> Any:
    """Floats of NumPy's as integers: towards zero, clamped to the range, 0 for NaN."""
    x = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    info = iinfo(to)
    low, high = x <= float(info.min), x >= float(info.max)  # (the bounds round to powers of two)
    outside = low | high | np.isnan(x)
    if not outside.any():
        return x.astype(to)
    made = np.where(outside, 0, x).astype(to)
    return np.where(high, info.max, np.where(low, info.min, made)).astype(to)


def converted(x: Any, dtype: Any) -> Any:
    """Numbers of NumPy's in another dtype, as convert_element_type converts; of rank 0 a scalar."""
    if dtype.kind != "c" and x.dtype.kind == "c":
        x = x.real
    with np.errstate(all="ignore"):
        return (whole if is_integer(dtype) and is_inexact(x.dtype) else np.ndarray.astype)(
            np.asarray(x), dtype)[()]


def filling(x: Any, dtype: Any) -> Any:
    """A value that arrays of a dtype are filled with: as that dtype where a Python int is beyond
    the default integers."""
    if type(x) is int and not is_key(dtype):
        return float(x) if is_inexact(dtype) and x.bit_length() > 31 else wrapped(x, dtype)
    return x


# ---- the promotion lattice (nodes: dtype names and the weak i*, f*, c*)
_EDGES: dict[str, list[str]] = {
    "bool": ["i*"],
    "i*": ["uint8", "int8", *(d.name for d in SMALL_INTEGERS)],
    "uint8": ["int16", "uint16"], "uint16": ["int32", "uint32"],
    "uint32": ["int64", "uint64"], "uint64": ["f*"],
    "int8": ["int16"], "int16": ["int32"], "int32": ["int64"], "int64": ["f*"],
    "f*": ["c*", "float16", "bfloat16",
           *(d.name for d in (*SMALL_FLOATS, *FLOAT6))],
    **{d.name: [] for d in (*SMALL_FLOATS, *FLOAT6, *SMALL_INTEGERS)},
    "float16": ["float32"], "bfloat16": ["float32"], "float32": ["float64", "complex64"],
    "float64": ["complex128"],
    "c*": ["complex64"], "complex64": ["complex128"], "complex128": [],
}


@functools.cache
def _above(node: str) -> frozenset[str]:
    found = {node}
    for nxt in _EDGES[node]:
        found |= _above(nxt)
    return frozenset(found)


@functools.cache
def _join(nodes: frozenset[str]) -> str:
    common = frozenset.intersection(*[_above(n) for n in nodes])
    least = [n for n in common if common <= _above(n)]
    if len(least) != 1:
        written = tuple(sorted(map(_written, nodes)))
        raise TypePromotionError(
            f"Input dtypes {written} have no available implicit dtype promotion "
            f"path.{_of_small(nodes)}\n"
            "  Fix: cast one of them explicitly with .astype(...).")
    return least[0]


def _written(node: str) -> str:
    return str(_WEAK.get(node, node))


def _of_small(nodes: frozenset[str]) -> str:
    """Why dtypes of the few bits promote to nothing."""
    for what, some in (
            ("8-bit floats", FLOAT8), ("6-bit floats", FLOAT6), ("4-bit floats", FLOAT4),
            ("1-bit, 2-bit and 4-bit integers", SMALL_INTEGERS)):
        if any(d.name in nodes for d in some):
            return f" To avoid unintended promotion, {what} do not support implicit promotion."
    return ""


def _node(dtype: Dtype, weak: bool) -> str:
    if weak:
        if dtype.kind == "c":
            return "c*"
        return "f*" if is_float(dtype) else ("i*" if is_integer(dtype) else "bool")
    return dtype.name


_WEAK = {"i*": int, "f*": float, "c*": complex}


@functools.cache
def _promote(pairs: frozenset[tuple[Dtype, bool]], x64: bool, strict: bool) -> tuple[Dtype, bool]:
    if len(pairs) == 1:
        (dtype, weak), = pairs
        return dtype, weak and dtype != bool_
    kinds = {d for d, _ in pairs}
    refuse_float0(*kinds)
    refuse_strings(*kinds)
    if any(map(is_key, kinds)) and len(kinds) > 1:
        raise TypeError(explain(
            f"dtypes {', '.join(sorted(d.name for d in kinds))} do not promote: PRNG keys mix with "
            "nothing else.", fix="use random.key_data to read a key's words."))
    all_weak = all(w for _, w in pairs)
    if len(kinds) == 1 and not all_weak:
        return kinds.pop(), False
    if strict:
        strong = {d for d, w in pairs if not w}
        nodes = {_node(d, w) for d, w in pairs}
        if len(strong) > 1 or (len(strong) == 1 and not all(
                next(iter(strong)).name in _above(n) for n in nodes)):
            names = sorted(f"{d}{' (weak)' if w else ''}" for d, w in pairs)
            raise TypePromotionError(
                f"Input dtypes {', '.join(names)} have no available implicit dtype promotion path "
                "when jax_numpy_dtype_promotion=strict.\n"
                "  Fix: cast explicitly, or set jax_numpy_dtype_promotion='standard'.")
    top = _join(frozenset(_node(d, w and not all_weak) for d, w in pairs))
    if top in _WEAK:
        dtype = np.dtype(_WEAK[top]) if top != "i*" else np.dtype(np.int64)
        weak = True
    else:
        dtype, weak = np.dtype(getattr(ml_dtypes, top)) if not hasattr(np, top) and hasattr(
            ml_dtypes, top) else np.dtype(top), all_weak
    if not x64:
        dtype = _NARROW.get(dtype, dtype)
    return dtype, weak and dtype != bool_


def promote(pairs: Iterable[tuple[Dtype, bool]], strict: bool | None = None) -> tuple[Dtype, bool]:
    """The join of (dtype, weak) pairs: result dtype and whether it is weak."""
    return _promote(frozenset(pairs), config.jax_enable_x64,
                    is_strict() if strict is None else strict)


def is_strict() -> bool:
    """Whether dtypes may not be mixed here."""
    return config.jax_numpy_dtype_promotion == "strict" and not asked_by_ours(*_STRICT)


# where dtypes of operands are the user's; other functions of ours mix what they make themselves
_STRICT = ("api", "numpy", "lax", "parallel", "ops")


def refuse_strings(*kinds: Dtype) -> None:
    """ValueError for NumPy's dtype of strings, which promotes to nothing."""
    for kind in kinds:
        if kind.kind == "T":
            raise ValueError(explain(
                f"dtype={kind} is not a valid dtype for JAX type promotion: nothing is computed "
                "with arrays of strings.", fix="work on np.asarray(x)."))


def refuse_float0(*kinds: Dtype, name: str = "an operation") -> None:
    """TypeError for the dtype of derivatives by integers, which nothing is computed with."""
    if float0 in kinds:
        raise TypeError(explain(
            f"Called {name} with a float0 array. float0s do not support any operations by design, "
            "because they are not compatible with non-trivial vector spaces: they are derivatives "
            "by integers and booleans.",
            fix="use np.zeros(x.shape, dtype) where zeros of a dtype are wanted."))


def promote_types(a: Any, b: Any) -> Dtype:
    """The dtype two dtypes promote to (JAX's lattice); Python scalar types are weak."""
    return promote([_pair(a), _pair(b)])[0]


def _pair(x: Any) -> tuple[Dtype, bool]:
    if isinstance(x, type) and x in _PYTHON:
        return default_dtype(x), x is not bool
    return canonical(x), False


def dtype_and_weak(x: Any) -> tuple[Dtype, bool]:
    """(canonical dtype, weak) of an array, a tracer, a scalar, a dtype or a dtype's name."""
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype, aval.weak_type
    info = scalar_info(x)
    if info is not None:
        return info
    if isinstance(x, (np.ndarray, np.generic)):
        return canonical(x.dtype), False
    if isinstance(x, (type, str, np.dtype)):
        return _pair(x)
    if hasattr(x, "dtype"):
        return canonical(x.dtype), bool(getattr(x, "weak_type", False))
    if hasattr(x, "__jax_array__"):
        return dtype_and_weak(x.__jax_array__())
    raise TypeError(explain(
        f"result_type: {x!r} of type {type(x).__name__} is neither array nor dtype.",
        fix="pass an array, a number, a dtype or a dtype's name."))


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype an operation on these arrays, scalars or dtypes has (None: the default float); with
    return_weak_type_flag also whether it is weak."""
    if not args:
        raise ValueError("result_type: at least one array or dtype is required.")
    found = promote([(default_dtype(float), False) if a is None else dtype_and_weak(a)
                     for a in args])
    return found if return_weak_type_flag else found[0]


def to_inexact(dtype: Dtype) -> Dtype:
    """Integers and booleans to the default float, inexact dtypes unchanged."""
    return dtype if is_inexact(dtype) else default_dtype(float)


def extreme(dtype: Dtype, largest: bool) -> Any:
    """The largest or the smallest value of a dtype, infinities included: the identity of min or
    max (of complex numbers in both parts)."""
    if dtype == bool_:
        return largest
    if is_complex(dtype):
        part = extreme(real_dtype(dtype), largest)
        return complex(part, part)
    if is_integer(dtype):
        info: Any = iinfo(dtype)
    elif is_finite_only(dtype):
        info = finfo(dtype)
    else:
        return np.inf if largest else -np.inf
    return info.max if largest else info.min


def is_finite_only(dtype: Any) -> bool:
    """A float without infinities."""
    return dtype in SMALL_FLOATS and not np.isinf(np.asarray(np.inf).astype(dtype))


def real_dtype(dtype: Dtype) -> Dtype:
    """complex64 -> float32, complex128 -> float64, others unchanged."""
    return np.dtype(f"float{dtype.itemsize * 4}") if dtype.kind == "c" else dtype


def complex_dtype(dtype: Dtype) -> Dtype:
    """float64 -> complex128, other reals -> complex64, complex unchanged."""
    if dtype.kind == "c":
        return dtype
    return np.dtype("complex128") if dtype == np.dtype("float64") else np.dtype("complex64")


def tangent_dtype(dtype: Dtype) -> Dtype:
    """Inexact dtypes are their own tangents; integers, booleans and keys have float0."""
    return dtype if not is_key(dtype) and is_inexact(dtype) else float0


_SHORT = {"bool": "bool", "bfloat16": "bf16",
          **{d.name: d.name.replace("float", "f") for d in SMALL_FLOATS},
          **{d.name: d.name.replace("int", "i").replace("ui", "u") for d in SMALL_INTEGERS}}


@functools.cache
def short_name(dtype: Any) -> str:
    """jaxpr notation: float32 -> f32, int8 -> i8, uint32 -> u32, complex64 -> c64."""
    if is_key(dtype):
        return str(dtype)
    if dtype == float0:
        return "float0"
    if dtype.name in _SHORT:
        return _SHORT[dtype.name]
    return f"{dtype.kind}{8 * dtype.itemsize}"


def finfo(dtype: Any) -> Any:
    """np.finfo that knows the floats of ml_dtypes."""
    return ml_dtypes.finfo(np.dtype(dtype))


def iinfo(dtype: Any) -> Any:
    """np.iinfo that knows the integers of less than a byte."""
    return ml_dtypes.iinfo(np.dtype(dtype))
