"""Dtypes as calque.numpy offers them: scalar types (jnp.float32(3) makes an Array), iinfo, finfo,
result_type and its relatives, and the constants.
"""
from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np

from calque.core import dtypes
from calque.core.errors import explain
from calque.core.lists import as_tuple


class _ScalarMeta(type):
    """The type of jnp.float32 and its siblings: a dtype that can be called."""

    dtype: Any

    def __call__(cls, x: Any = 0) -> Any:
        from calque.numpy.creation import array
        return array(x, dtype=cls.dtype)

    def __eq__(cls, other: object) -> builtins.bool:
        if isinstance(other, (_ScalarMeta, str)):
            return cls is other
        if isinstance(other, type):  # (not Python's: np.dtype(int) is np.int64's)
            return cls.dtype.type is other
        try:
            return builtins.bool(cls.dtype == other)
        except TypeError:
            return False

    def __ne__(cls, other: object) -> builtins.bool:
        return not cls == other

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __instancecheck__(cls, x: Any) -> builtins.bool:
        return isinstance(x, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'calque.numpy.{cls.__name__}'>"


def _scalar_type(name: str, dtype: Any) -> Any:
    doc = (f"Scalar type of dtype {name}: a dtype argument, or a conversion of its argument.\n\n"
           f"    Example:\n      >>> import calque.numpy as jnp\n"
           f"      >>> jnp.{name}.dtype\n      {np.dtype(dtype)!r}\n    ")
    return _ScalarMeta(name, (), {"dtype": np.dtype(dtype), "__doc__": doc,
                                  "__module__": "calque.numpy"})


bool_ = _scalar_type("bool_", np.bool_)
int8, int16, int32, int64 = (_scalar_type(f"int{n}", f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_scalar_type(f"uint{n}", f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (_scalar_type(f"float{n}", f"float{n}") for n in (16, 32, 64))
bfloat16 = _scalar_type("bfloat16", ml_dtypes.bfloat16)
float8_e3m4 = _scalar_type("float8_e3m4", ml_dtypes.float8_e3m4)
float8_e4m3 = _scalar_type("float8_e4m3", ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = _scalar_type("float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _scalar_type("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type("float8_e5m2", ml_dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = _scalar_type("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu)
float6_e2m3fn = _scalar_type("float6_e2m3fn", ml_dtypes.float6_e2m3fn)
float6_e3m2fn = _scalar_type("float6_e3m2fn", ml_dtypes.float6_e3m2fn)
float4_e2m1fn = _scalar_type("float4_e2m1fn", ml_dtypes.float4_e2m1fn)
int2, int4 = (_scalar_type(f"int{n}", getattr(ml_dtypes, f"int{n}")) for n in (2, 4))
uint2, uint4 = (_scalar_type(f"uint{n}", getattr(ml_dtypes, f"uint{n}")) for n in (2, 4))
if hasattr(ml_dtypes, "int1"):  # 0.6 and later
    int1, uint1 = (_scalar_type(n, getattr(ml_dtypes, n)) for n in ("int1", "uint1"))
complex64 = _scalar_type("complex64", np.complex64)
complex128 = _scalar_type("complex128", np.complex128)

bool = bool_  # noqa: A001 (NumPy's and JAX's name)
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128

# kinds for issubdtype
generic, number, integer = np.generic, np.number, np.integer
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
inexact, floating, complexfloating = np.inexact, np.floating, np.complexfloating
flexible, character, object_ = np.flexible, np.character, np.object_
dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning

pi, e, euler_gamma = np.pi, np.e, np.euler_gamma
inf, nan = np.inf, np.nan
newaxis = None


def _plain(x: Any) -> Any:
    """A dtype argument in a form that core.dtypes understands."""
    return x.dtype if isinstance(x, _ScalarMeta) else x


def _of_limits(x: Any) -> np.dtype[Any]:
    """The dtype whose limits are asked for: of a dtype, a scalar type of NumPy's or of ours, or
    an array."""
    kind = x if isinstance(x, type) and issubclass(x, np.generic) else getattr(x, "dtype", x)
    return np.dtype(_plain(kind))


class finfo(ml_dtypes.finfo):  # type: ignore[misc]  # noqa: N801 (NumPy's name)
    """Limits of a float dtype (those of ml_dtypes included).

    Example:
      >>> import calque.numpy as jnp
      >>> float(jnp.finfo(jnp.bfloat16).eps)
      0.0078125
    """

    def __new__(cls, dtype: Any) -> Any:
        return ml_dtypes.finfo(_of_limits(dtype))


class iinfo(ml_dtypes.iinfo):  # type: ignore[misc]  # noqa: N801 (NumPy's name)
    """Limits of an integer dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.iinfo(jnp.int8).max
      127
    """

    def __new__(cls, dtype: Any) -> Any:
        number = isinstance(dtype, int) and not isinstance(dtype, type)
        kind = np.dtype(int) if number else _of_limits(dtype)
        return dtypes.iinfo(kind) if kind in dtypes.SMALL_INTEGERS else np.iinfo(kind)


def result_type(*args: Any) -> Any:
    """The dtype that an operation on these arrays, scalars or dtypes has.

    Args:
      *args: arrays, Python scalars (weak), dtypes.

    Returns:
      A NumPy dtype.

    Raises:
      ValueError: there are no arguments.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.result_type(jnp.int8, jnp.float16)
      dtype('float16')
    """
    return dtypes.result_type(*[a if a is None else _plain(a) for a in args])


def promote_types(a: Any, b: Any) -> Any:
    """The dtype that two dtypes promote to.

    Args:
      a: a dtype or Python scalar type.
      b: a dtype or Python scalar type.

    Returns:
      A NumPy dtype.

    Raises:
      TypePromotionError: there is none (fp8 with others).

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.promote_types("int32", "bfloat16")
      dtype(bfloat16)
    """
    a, b = _plain(a), _plain(b)
    pairs = [(np.dtype(t), isinstance(t, type) and t in (int, float, complex)) for t in (a, b)]
    joined = dtypes._promote(frozenset(pairs), True, dtypes.is_strict())[0]
    # the integers that hold those of both are cut like any array's
    whole = dtypes.is_integer(joined) and all(joined != d for d, _ in pairs)
    return dtypes.canonical(joined) if whole else joined


def issubdtype(arg1: Any, arg2: Any) -> builtins.bool:
    """Whether a dtype is of a kind (jnp.floating, jnp.integer, ...) or equals a dtype.

    Args:
      arg1: a dtype.
      arg2: a kind or a dtype.

    Returns:
      A bool.

    Raises:
      TypeError: an argument is no dtype.
      ValueError: an argument is an array of keys.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.issubdtype(jnp.bfloat16, jnp.floating)
      True
    """
    for given in (arg1, arg2):
        if dtypes.is_key(getattr(given, "dtype", None)):
            raise ValueError(explain(
                f"Could not convert {type(given).__name__} of {given.dtype} to a NumPy dtype.",
                fix="pass its .dtype."))
    return dtypes.issubdtype(_plain(arg1), _plain(arg2))


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind of the array API standard.

    Args:
      dtype: a dtype.
      kind: 'bool', 'signed integer', 'unsigned integer', 'integral', 'real floating', 'complex
        floating', 'numeric', a dtype, or a tuple of them.

    Returns:
      A bool.

    Raises:
      ValueError: an unknown kind.
      TypeError: kind is no string, dtype or tuple.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isdtype(jnp.float32, "real floating")
      True
    """
    found = np.dtype(_plain(dtype))
    kinds = as_tuple(kind)
    return any(_is_kind(found, k) for k in kinds)


_KINDS: dict[str, Any] = {
    "bool": lambda d: d == dtypes.bool_,
    "signed integer": dtypes.is_signed,
    "unsigned integer": dtypes.is_unsigned,
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_float,
    "complex floating": dtypes.is_complex,
    "numeric": lambda d: dtypes.is_integer(d) or dtypes.is_inexact(d)}


def _is_kind(found: Any, kind: Any) -> builtins.bool:
    if isinstance(kind, str) and kind in _KINDS:
        return builtins.bool(_KINDS[kind](found))
    if isinstance(kind, str):
        try:
            return builtins.bool(found == np.dtype(kind))
        except TypeError:
            raise ValueError(explain(
                f"Unrecognized kind {kind!r} expected one of {sorted(_KINDS)}")) from None
    if isinstance(kind, (np.dtype, type)):
        return builtins.bool(found == np.dtype(_plain(kind)))
    raise TypeError(explain(f"Expected kind to be a dtype, string, or tuple; got kind={kind!r}"))


def can_cast(from_: Any, to: Any, casting: str = "safe") -> builtins.bool:
    """Whether NumPy's casting rule allows a conversion between two dtypes.

    Args:
      from_: a dtype.
      to: a dtype.
      casting: NumPy's name of the rule.

    Returns:
      A bool.

    Raises:
      TypeError: an argument is no dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.can_cast("int32", "int8")
      False
    """
    return builtins.bool(np.can_cast(_plain(from_), _plain(to), casting))  # type: ignore


def iscomplexobj(x: Any) -> builtins.bool:
    """Whether x has a complex dtype.

    Args:
      x: an array or scalar.

    Returns:
      A bool.

    Raises:
      TypeError: never.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.iscomplexobj(1j)
      True
    """
    if x is None:
        return False
    try:
        return dtypes.is_complex(x.dtype)
    except AttributeError:
        if hasattr(x, "__jax_array__"):
            return iscomplexobj(x.__jax_array__())
        parts = x if isinstance(x, (list, tuple)) else ()
        return any(map(iscomplexobj, parts)) if parts else builtins.bool(np.iscomplexobj(x))


def isrealobj(x: Any) -> builtins.bool:
    """Whether x has no complex dtype.

    Args:
      x: an array or scalar.

    Returns:
      A bool.

    Raises:
      TypeError: never.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isrealobj(1.0)
      True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> builtins.bool:
    """Whether element is a scalar: a Python or NumPy one, or an array of rank 0.

    Args:
      element: anything.

    Returns:
      A bool.

    Raises:
      TypeError: never.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isscalar(1.0), jnp.isscalar([1.0])
      (True, False)
    """
    if np.isscalar(element):
        return True
    if hasattr(element, "aval") or isinstance(element, np.ndarray):
        return element.ndim == 0
    if hasattr(element, "__jax_array__"):
        return isscalar(element.__jax_array__())
    return False


__all__ = [
    "ComplexWarning", "bfloat16", "bool", "bool_", "can_cast", "cdouble", "character",
    "complex128", "complex64", "complex_", "complexfloating", "csingle", "double", "dtype", "e",
    "euler_gamma", "finfo", "flexible", "float16", "float32", "float4_e2m1fn", "float64",
    "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float_", "floating", "generic", "iinfo", "inexact", "inf", "int16", "int2", "int32", "int4",
    "int64", "int8", "int_", "integer", "iscomplexobj", "isdtype", "isrealobj", "isscalar",
    "issubdtype", "nan", "newaxis", "number", "object_", "pi", "promote_types", "result_type",
    "signedinteger", "single", "uint", "uint16", "uint2", "uint32", "uint4", "uint64", "uint8",
    "unsignedinteger",
    *(n for n in ("int1", "uint1") if hasattr(ml_dtypes, n))]
