"""Elementwise primitives.  One row each: name, operand dtypes, result dtype, partial derivatives;
then the few that are not plain maps (convert, bitcast, select_n, clamp, complex parts).

Operands have equal shapes or rank 0 (scalars are not broadcast in the Program, as in jaxprs).
A partial takes (tangent, *operands, result) and returns its term of the tangent.
Start reading at `_elementwise`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import (
    ShapedArray,
    aval_of,
    dtype_of,
    is_complex,
    ndim_of,
    same_type,
    shape_of,
)
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.primitive import Primitive, is_linear, registry
from calque.core.trace import current
from calque.core.types import Function, Shape
from calque.core.zeros import Zero, add_tangents, constant, factor, is_zero, zero_like
from calque.transforms.vmap import all_to_front, batch_first, move_axis, to_front

# ---- what operands may be
NUMBER = "number"
FLOAT = "float"  # real floating point
INEXACT = "inexact"
INTEGER = "integer"
BITS = "bool or integer"
ANY = "any"
ORDERED = "number or bool"  # any but keys
COMPARED = "number, bool or key"
COMPLEX = "complex"

# ---- why a primitive has no form in kernels of ours
NO_COMPLEX = "kernels have no complex numbers"

_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    NUMBER: lambda d: d != dtypes.bool_ and not dtypes.is_key(d) and d != dtypes.float0,
    FLOAT: dtypes.is_float,
    INEXACT: dtypes.is_inexact,
    INTEGER: dtypes.is_integer,
    BITS: lambda d: d == dtypes.bool_ or dtypes.is_integer(d),
    COMPLEX: dtypes.is_complex,
    "real": lambda d: _ACCEPTS[NUMBER](d) and not dtypes.is_complex(d),
    ANY: lambda d: True,
    COMPARED: lambda d: d != dtypes.float0,
    ORDERED: lambda d: not dtypes.is_key(d) and d != dtypes.float0,
}


def check_dtypes(name: str, accepts: str, avals: Sequence[ShapedArray], same: bool = True) -> None:
    """Refuse operands of the wrong kind or of different dtypes."""
    for i, a in enumerate(avals):
        if not _ACCEPTS[accepts](a.dtype):
            dtypes.refuse_float0(a.dtype, name=name)
            raise TypeError(explain(
                f"{name} does not accept dtype {a.dtype.name} at position {i}. "
                f"Accepted dtypes: {accepts}.",
                fix="cast the operand with .astype(...)."))
    if same and any(a.dtype != avals[0].dtype for a in avals):
        names = ", ".join(a.dtype.name for a in avals)
        raise TypeError(explain(
            f"lax.{name} requires arguments to have the same dtypes, got {names}.",
            fix=f"cast one of them, or use jnp.{name}, which promotes its arguments."))


def broadcast_shape(name: str, avals: Sequence[ShapedArray]) -> Shape:
    """The common shape; rank-0 operands go with any."""
    shapes = [a.shape for a in avals if a.shape]
    if not shapes:
        return ()
    if any(s != shapes[0] for s in shapes):
        text = ", ".join(str(a.shape) for a in avals)
        raise TypeError(explain(
            f"{name} got incompatible shapes for broadcasting: {text}.",
            fix="reshape one of them, or add axes with x[:, None] so that they broadcast."))
    return shapes[0]


def const(like: Any, value: complex) -> Any:
    """A scalar of like's dtype that keeps its weak type (so derivatives keep theirs)."""
    a = aval_of(like)
    if a.weak_type:
        if a.dtype.kind == "c":
            return complex(value)
        return float(value.real) if dtypes.is_float(a.dtype) else int(value.real)
    if a.dtype.kind != "c":
        value = value.real
    return constant(value, a.dtype)


def unbroadcast(ct: Any, aval: ShapedArray) -> Any:
    """Sum a cotangent down to a rank-0 operand."""
    if is_zero(ct) or aval.shape == shape_of(ct):
        return ct
    axes = tuple(range(ndim_of(ct)))
    return registry["reduce_sum"].bind(ct, axes=axes, out_sharding=None)


def match_shape(x: Any, shape: Shape) -> Any:
    """A rank-0 value spread to a shape."""
    if shape_of(x) == shape:
        return x
    return registry["broadcast_in_dim"].bind(
        x, shape=shape, broadcast_dimensions=(), sharding=None)


def batch_elementwise(prim: Primitive, scalars: bool = True) -> Function:
    """The batching rule of a map; scalars=False spreads rank-0 operands too."""
    def rule(size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        logical = [ndim_of(a) - (d is not None) for a, d in zip(args, dims)]
        rank = max(logical)
        axes = {d for d, n in zip(dims, logical) if d is not None}
        full = all(n == rank for n in logical) and all(d is not None for d in dims)
        if full and len(axes) == 1:
            return prim.bind(*args, **params), axes.pop()
        shape = next(s for s in (_logical_shape(a, d) for a, d in zip(args, dims))
                     if len(s) == rank)
        values = [_aligned(a, d, size, shape, scalars) for a, d in zip(args, dims)]
        return prim.bind(*values, **params), 0
    return rule


def _logical_shape(x: Any, dim: int | None) -> Shape:
    shape = shape_of(x)
    return shape if dim is None else without(shape, [dim])


def _aligned(x: Any, dim: int | None, size: int, shape: Shape, scalars: bool) -> Any:
    """x with the batch axis first and the full logical shape behind it."""
    if dim is None:
        a = aval_of(x)
        if a.shape == () and scalars:
            return x
        x = match_shape(x, shape)
        return to_front(x, None, size)
    x = move_axis(x, dim, 0)
    if ndim_of(x) == 1 and shape:
        return registry["broadcast_in_dim"].bind(
            x, shape=(size, *shape), broadcast_dimensions=(0,), sharding=None)
    return x


Partial = Callable[..., Any] | None


def _elementwise(name: str, accepts: str, partials: Sequence[Partial] | None = None, *,
                 arity: int | None = None, result: Callable[[Any], Any] | None = None,
                 **facts: Any) -> Primitive:
    """One row: partials None and arity given means not differentiable."""
    n = arity if arity is not None else len(partials or ())
    p = Primitive(name, differentiable=partials is not None, elementwise=True, arity=n, **facts)

    def abstract(*avals: ShapedArray) -> ShapedArray:
        if len(avals) != n:
            raise TypeError(f"{name} takes {n} operands, got {len(avals)}")
        check_dtypes(name, accepts, avals)
        dtype = avals[0].dtype if result is None else result(avals[0].dtype)
        weak = all(a.weak_type for a in avals)
        return ShapedArray(broadcast_shape(name, avals), dtype, weak)

    p.abstract = abstract
    p.batch = batch_elementwise(p)
    if partials is not None:
        p.jvp = _jvp_from_partials(p, partials)
    return p


_function = functools.partial(_elementwise, function=True, memory="fresh")  # a row of one


def _jvp_from_partials(p: Primitive, partials: Sequence[Partial]) -> Function:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = p.bind(*primals, **params)
        total: Any = zero_like(out)
        shape = shape_of(out)
        for partial, t in zip(partials, tangents):
            if partial is not None and not is_zero(t):
                term = partial(t, *primals, out, **params)
                total = add_tangents(total, match_shape(term, shape))
        return out, total
    return jvp


# ---- arithmetic (linear ones have transposes below)
add_p = _elementwise("add", NUMBER, (lambda t, x, y, o: t, lambda t, x, y, o: t),
                     memory="folds")
sub_p = _elementwise("sub", NUMBER, (lambda t, x, y, o: t, lambda t, x, y, o: neg(t)),
                     memory="folds")
mul_p = _elementwise("mul", NUMBER, (lambda t, x, y, o: mul(t, y), lambda t, x, y, o: mul(x, t)),
                     memory="folds")
div_p = _elementwise("div", NUMBER, (
    lambda t, x, y, o: div(t, y), lambda t, x, y, o: mul(mul(neg(t), x), integer_pow(y, -2))),
    memory="folds")
neg_p = _elementwise("neg", NUMBER, (lambda t, x, o: neg(t),))
add_any_p = _elementwise("add_any", ANY, (lambda t, x, y, o: t, lambda t, x, y, o: t),
                         memory="folds")
rem_p = _elementwise("rem", "real", (
    lambda t, x, y, o: t,
    lambda t, x, y, o: mul(neg(t), mul(sign(div(x, y)), floor(abs_(div(x, y)))))),
    memory="folds")
max_p = _elementwise("max", ORDERED, (
    lambda t, x, y, o: mul(t, _balanced(x, o, y)), lambda t, x, y, o: mul(t, _balanced(y, o, x))),
    memory="folds")
min_p = _elementwise("min", ORDERED, (
    lambda t, x, y, o: mul(t, _balanced(x, o, y)), lambda t, x, y, o: mul(t, _balanced(y, o, x))),
    memory="folds")


def _balanced(x: Any, out: Any, y: Any) -> Any:
    """1 where x is the result, 0 where it is not, 1/2 on ties."""
    shape = shape_of(out)
    one, zero, two = (match_shape(const(out, v), shape) for v in (1, 0, 2))
    return div(select_n(match_shape(eq(x, out), shape), zero, one),
               select_n(match_shape(eq(y, out), shape), one, two))


def _transpose_sum(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(ct, v.aval) if is_linear(v) else None for v in (x, y)]


def _transpose_sub(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(ct, x.aval) if is_linear(x) else None,
            unbroadcast(neg(ct), y.aval) if is_linear(y) else None]


def _transpose_mul(ct: Any, x: Any, y: Any) -> list[Any]:
    if is_linear(x):
        return [unbroadcast(mul(ct, y), x.aval), None]
    return [None, unbroadcast(mul(x, ct), y.aval)]


def _transpose_div(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(div(ct, y), x.aval), None]


add_p.transpose = add_any_p.transpose = _transpose_sum
sub_p.transpose, mul_p.transpose, div_p.transpose = _transpose_sub, _transpose_mul, _transpose_div
neg_p.transpose = lambda ct, x: [neg(ct)]

# ---- powers
integer_pow_p = Primitive("integer_pow", elementwise=True)


def _integer_pow_abstract(x: ShapedArray, *, y: int) -> ShapedArray:
    check_dtypes("integer_pow", NUMBER, [x])
    if y < 0 and dtypes.is_integer(x.dtype):
        raise TypeError(explain(
            f"Integers cannot be raised to negative powers, got integer_pow({x.short()}, {y})",
            fix="cast the base to a float first."))
    return x


integer_pow_p.abstract = _integer_pow_abstract
integer_pow_p.batch = batch_elementwise(integer_pow_p)


def _integer_pow_partial(t: Any, x: Any, o: Any, *, y: int) -> Any:
    if y == 0:
        return Zero(aval_of(t))
    return mul(t, mul(factor(x, y), integer_pow(x, y - 1)))


integer_pow_p.jvp = _jvp_from_partials(integer_pow_p, [_integer_pow_partial])


def integer_pow(x: Any, y: int) -> Any:
    """x ** y for a Python integer y, without work for 0, 1 and 2 beyond a multiplication."""
    if y == 1:
        return x
    if y == 0:
        return match_shape(const(x, 1), shape_of(x))
    return integer_pow_p.bind(x, y=y)


pow_p = Primitive("pow", elementwise=True, arity=2, function=True, memory="folds", static_operand=1)


def _pow_abstract(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    check_dtypes("pow", NUMBER, [x])
    if not dtypes.is_integer(y.dtype):
        check_dtypes("pow", INEXACT, [x, y])
    weak = x.weak_type and y.weak_type
    return ShapedArray(broadcast_shape("pow", [x, y]), x.dtype, weak)


def _pow_base_partial(t: Any, x: Any, y: Any, o: Any) -> Any:
    """t * y * x**(y - 1), and 0 at 0**0, where that is 0 times infinity; at other x and y = 0 it is
    the formula, whose own derivative by y is 1 / x."""
    yf = y if dtype_of(y) == dtype_of(x) else convert(y, dtype_of(x))
    shape = shape_of(o)
    lower = sub(y, const(y, 1))
    one = match_shape(constant(1, dtype_of(x)), shape)  # (strong, as in JAX)
    origin = and_(match_shape(eq(x, const(x, 0)), shape), match_shape(eq(yf, const(yf, 0)), shape))
    base = select_n(origin, match_shape(x, shape), one)
    return mul(t, mul(match_shape(yf, shape), match_shape(pow_(base, lower), shape)))


def _pow_exponent_partial(t: Any, x: Any, y: Any, o: Any) -> Any:
    """t * log(x) * x**y, and 0 at x == 0 (as JAX)."""
    shape = shape_of(x)
    one = match_shape(const(x, 1), shape)
    safe = select_n(eq(x, const(x, 0)), x, one)
    term = mul(t, mul(match_shape(log(safe), shape_of(o)), o))
    return convert(term, dtype_of(term))  # (strong, as in JAX)


pow_p.abstract = _pow_abstract
pow_p.batch = batch_elementwise(pow_p)
pow_p.jvp = _jvp_from_partials(pow_p, [_pow_base_partial, _pow_exponent_partial])

# ---- functions of one real or complex variable
_half = 0.5
exp_p = _function("exp", INEXACT, (lambda t, x, o: mul(t, o),))
exp2_p = _function("exp2", INEXACT, (lambda t, x, o: mul(t, mul(factor(o, math.log(2.0)), o)),))
expm1_p = _function("expm1", INEXACT, (lambda t, x, o: mul(t, add(o, const(o, 1))),))
log_p = _function("log", INEXACT, (lambda t, x, o: div(t, x),))
log1p_p = _function("log1p", INEXACT, (lambda t, x, o: div(t, add(x, const(x, 1))),))
sqrt_p = _function("sqrt", INEXACT, (lambda t, x, o: mul(t, div(factor(o, _half), o)),))
rsqrt_p = _function("rsqrt", INEXACT, (
    lambda t, x, o: mul(t, mul(factor(o, -_half), div(o, x))),))
cbrt_p = _function("cbrt", FLOAT, (
    lambda t, x, o: mul(t, mul(factor(o, 1 / 3), integer_pow(o, -2))),))
square_p = _elementwise("square", NUMBER, (lambda t, x, o: mul(t, mul(factor(x, 2), x)),),
                        memory="fresh")
sin_p = _function("sin", INEXACT, (lambda t, x, o: mul(t, cos(x)),))
cos_p = _function("cos", INEXACT, (lambda t, x, o: neg(mul(t, sin(x))),))
tan_p = _function("tan", INEXACT, (lambda t, x, o: mul(t, add(factor(o, 1), square(o))),))
asin_p = _function("asin", INEXACT, (
    lambda t, x, o: mul(t, rsqrt(sub(factor(x, 1), square(x)))),))
acos_p = _function("acos", INEXACT, (
    lambda t, x, o: mul(t, neg(rsqrt(sub(factor(x, 1), square(x))))),))
atan_p = _function("atan", INEXACT, (lambda t, x, o: div(t, add(factor(x, 1), square(x))),))
sinh_p = _function("sinh", INEXACT, (lambda t, x, o: mul(t, cosh(x)),))
cosh_p = _function("cosh", INEXACT, (lambda t, x, o: mul(t, sinh(x)),))
tanh_p = _function("tanh", INEXACT, (
    lambda t, x, o: mul(add(t, mul(t, o)), sub(const(o, 1), o)),))
asinh_p = _function("asinh", INEXACT, (
    lambda t, x, o: mul(t, rsqrt(add(square(x), const(x, 1)))),))
acosh_p = _function("acosh", INEXACT, (
    lambda t, x, o: mul(t, rsqrt(mul(sub(x, const(x, 1)), add(x, const(x, 1))))),))
atanh_p = _function("atanh", INEXACT, (
    lambda t, x, o: div(div(t, sub(const(x, 1), x)), add(const(x, 1), x)),))
logistic_p = _function("logistic", INEXACT, (
    lambda t, x, o: mul(t, mul(o, logistic(neg(x)))),))
erf_p = _function("erf", FLOAT, (
    lambda t, x, o: mul(mul(factor(x, 2 / math.sqrt(math.pi)), t), exp(neg(square(x)))),))
erfc_p = _function("erfc", FLOAT, (
    lambda t, x, o: mul(mul(factor(x, -2 / math.sqrt(math.pi)), t), exp(neg(square(x)))),))
erf_inv_p = _function("erf_inv", FLOAT, (
    lambda t, x, o: mul(mul(factor(x, math.sqrt(math.pi) / 2), t), exp(square(o))),))
atan2_p = _elementwise("atan2", FLOAT, (
    lambda t, x, y, o: mul(t, div(y, add(square(x), square(y)))),
    lambda t, x, y, o: mul(t, div(neg(x), add(square(x), square(y))))),
    function=True, memory="folds")


def _no_rule(*_: Any) -> Any:
    raise NotImplementedError(explain(
        "Differentiation rule for 'nextafter' not implemented",
        fix="keep its operands constant, for example with lax.stop_gradient."))


nextafter_p = _elementwise("nextafter", FLOAT, (_no_rule, _no_rule), memory="folds")


# ---- sign, rounding
floor_p = _elementwise("floor", FLOAT, arity=1, memory="fresh")
ceil_p = _elementwise("ceil", FLOAT, arity=1, memory="fresh")
sign_p = _elementwise("sign", NUMBER, (lambda t, x, o: _sign_partial(t, x, o),), memory="fresh")
is_finite_p = _elementwise("is_finite", FLOAT, arity=1, result=lambda d: dtypes.bool_,
                           memory="fresh")
round_p = Primitive("round", differentiable=False, elementwise=True, memory="fresh")


def _round_abstract(x: ShapedArray, *, rounding_method: Any) -> ShapedArray:
    check_dtypes("round", FLOAT, [x])
    return x


round_p.abstract = _round_abstract
round_p.batch = batch_elementwise(round_p)
abs_p = _elementwise("abs", NUMBER, (lambda t, x, o: _abs_partial(t, x),),
                     result=dtypes.real_dtype)


def _abs_partial(t: Any, x: Any) -> Any:
    if is_complex(x):
        return real(mul(t, conj(sign(x))))
    return select_n(ge(x, const(x, 0)), neg(t), t)  # 1 at 0, as in JAX


def _sign_partial(t: Any, x: Any, o: Any) -> Any:
    """Zero for reals; for z / |z|: the part of t across z, divided by |z|."""
    if not is_complex(x):
        return Zero(aval_of(t))
    across = imag(mul(t, conj(o)))
    return mul(o, complex_(match_shape(const(across, 0), shape_of(across)),
                           div(across, abs_(x))))


# ---- comparison (bool results)
def _comparison(name: str, accepts: str = COMPARED, **facts: Any) -> Primitive:
    return _elementwise(name, accepts, arity=2, result=lambda d: dtypes.bool_, memory="folds",
                        **facts)


eq_p, ne_p = (_comparison(name, keys=True) for name in ("eq", "ne"))
lt_p, le_p, gt_p, ge_p = (_comparison(name, ORDERED) for name in ("lt", "le", "gt", "ge"))

# ---- logic, shifts, bit counting
and_p, or_p, xor_p = (
    _elementwise(n, BITS, arity=2, memory="folds") for n in ("and", "or", "xor"))
not_p = _elementwise("not", BITS, arity=1)
shift_left_p, shift_right_arithmetic_p, shift_right_logical_p = (
    _elementwise(n, INTEGER, arity=2, memory="folds")
    for n in ("shift_left", "shift_right_arithmetic", "shift_right_logical"))
population_count_p = _elementwise("population_count", INTEGER, arity=1)
clz_p = _elementwise("clz", INTEGER, arity=1)

# ---- complex numbers
real_p = _elementwise("real", COMPLEX, (lambda t, x, o: real(t),), result=dtypes.real_dtype,
                      moves=True, no_kernel=NO_COMPLEX)
imag_p = _elementwise("imag", COMPLEX, (lambda t, x, o: imag(t),), result=dtypes.real_dtype,
                      moves=True, no_kernel=NO_COMPLEX)
complex_p = _elementwise("complex", FLOAT, (
    lambda t, x, y, o: complex_(t, _zeros_as(t)), lambda t, x, y, o: complex_(_zeros_as(t), t)),
    result=dtypes.complex_dtype, moves=True, memory="folds", no_kernel=NO_COMPLEX)
conj_p = _elementwise("conj", INEXACT, (lambda t, x, o: conj(t),), result=dtypes.complex_dtype,
                      no_kernel=NO_COMPLEX)


def _zeros_as(x: Any) -> Any:
    return match_shape(const(x, 0), shape_of(x))


# The transpose is not conjugated (JAX's convention): <ct, J t> is bilinear.
real_p.transpose = lambda ct, x: [complex_(ct, _zeros_as(ct))]
imag_p.transpose = lambda ct, x: [complex_(_zeros_as(ct), neg(ct))]
complex_p.transpose = lambda ct, x, y: [
    unbroadcast(real(ct), x.aval) if is_linear(x) else None,
    unbroadcast(imag(neg(ct)), y.aval) if is_linear(y) else None]
conj_p.transpose = lambda ct, x: [conj(ct) if is_complex(x) else real(conj(ct))]

# ---- convert_element_type
convert_element_type_p = Primitive("convert_element_type", elementwise=True, moves=True,
                                   memory="view")


def _convert_abstract(x: ShapedArray, *, new_dtype: Any, weak_type: bool,
                      sharding: Any = None) -> ShapedArray:
    if dtypes.is_key(x.dtype) != dtypes.is_key(new_dtype):
        raise TypeError(explain(
            f"convert_element_type: cannot convert {x.dtype.name} to {new_dtype}.",
            fix="use random.key_data to read a key's words, random.wrap_key_data to make a key."))
    return ShapedArray(x.shape, new_dtype, weak_type)


def convert(x: Any, dtype: Any, weak: bool = False) -> Any:
    """x as dtype, doing nothing when it already is."""
    a = aval_of(x)
    if a.dtype == dtype and a.weak_type == weak and hasattr(x, "aval"):
        return x
    return convert_element_type_p.bind(x, new_dtype=np.dtype(dtype), weak_type=weak, sharding=None)


def _convert_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out = convert_element_type_p.bind(*primals, **params)
    aval = aval_of(out)
    (t,) = tangents
    if is_zero(t) or aval.tangent().dtype == dtypes.float0:
        return out, Zero(aval.tangent())
    return out, convert_element_type_p.bind(t, **params)


def _convert_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    return [convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type,
                                        sharding=None)]


convert_element_type_p.abstract = _convert_abstract
convert_element_type_p.jvp = _convert_jvp
convert_element_type_p.transpose = _convert_transpose
convert_element_type_p.batch = batch_elementwise(convert_element_type_p)

# ---- bitcast_convert_type
# (a map where the widths are the same, else its shape changes: passes/loops)
bitcast_convert_type_p = Primitive("bitcast_convert_type", differentiable=False, moves=True,
                                   memory="view", kernel="map")


def _bitcast_abstract(x: ShapedArray, *, new_dtype: Any) -> ShapedArray:
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if x.dtype.kind == "c" or np.dtype(new_dtype).kind == "c":
        raise TypeError(explain(f"bitcast_convert_type: no bitcast from {x.dtype} to {new_dtype}.",
                                fix="take real and imaginary parts first."))
    if (x.dtype == dtypes.bool_) != (np.dtype(new_dtype) == dtypes.bool_):
        raise TypeError(explain(f"bitcast_convert_type: no bitcast from {x.dtype} to {new_dtype}.",
                                fix="convert the booleans with .astype(jnp.uint8) first."))
    if old == new:
        return ShapedArray(x.shape, new_dtype)
    if old > new:
        return ShapedArray((*x.shape, old // new), new_dtype)
    if not x.shape or x.shape[-1] != new // old:
        had = f"{x.shape[-1]} * {old}" if x.shape else f"{old}"
        raise ValueError(explain(
            f"Attempting to convert array of shape {x.shape} from {x.dtype.name} of size {old} "
            f"bits to {np.dtype(new_dtype).name} of size {new} bits, but {had} != {new}.",
            where=f"bitcast_convert_type needs a last axis of size {new // old}",
            fix="reshape so that the last axis holds one element's parts."))
    return ShapedArray(x.shape[:-1], new_dtype)


bitcast_convert_type_p.abstract = _bitcast_abstract
bitcast_convert_type_p.batch = batch_first(bitcast_convert_type_p)

# ---- select_n
select_n_p = Primitive("select_n", elementwise=True, keys=True)


def _select_abstract(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    if not cases:
        raise TypeError("select_n must have at least one case")
    if any(not same_type(c, cases[0]) for c in cases):
        text = ", ".join(c.short() for c in cases)
        raise TypeError(explain(f"select_n cases must have the same shapes and dtypes, got {text}.",
                                fix="broadcast and cast them to one shape and dtype."))
    if which.dtype != dtypes.bool_ and which.dtype != dtypes.int32:
        raise TypeError(explain(f"select_n must have bool or int32 which, got {which.dtype}."))
    if which.dtype == dtypes.bool_ and len(cases) > 2:
        raise TypeError(f"select_n with a bool which takes at most 2 cases, got {len(cases)}")
    if which.shape and which.shape != cases[0].shape:
        raise TypeError(explain(
            f"select_n which must be scalar or have the same shape as cases, got {which.shape} "
            f"and {cases[0].shape}.", fix="broadcast the predicate."))
    return ShapedArray(cases[0].shape, cases[0].dtype, all(c.weak_type for c in cases))


def _select_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    out = select_n(*primals)
    rest = tangents[1:]
    if all(is_zero(t) for t in rest):
        return out, zero_like(out)
    shape = shape_of(out)
    given = next(t for t in rest if not is_zero(t))
    cases = [match_shape(const(given, 0), shape) if is_zero(t) else t for t in rest]
    return out, select_n(primals[0], *cases)


def _select_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    zeros = _zeros_as(ct)
    result: list[Any] = [None]
    for i, c in enumerate(cases):
        picked = [ct if j == i else zeros for j in range(len(cases))]
        result.append(select_n(which, *picked) if is_linear(c) else None)
    return result


def _select_batch(size: int, args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    which, *cases = args
    if dims[0] is None and ndim_of(which) == 0:
        moved = all_to_front(cases, dims[1:], size)
        return select_n(which, *moved), 0
    return batch_elementwise(select_n_p, scalars=False)(size, args, dims)


select_n_p.abstract, select_n_p.jvp = _select_abstract, _select_jvp
select_n_p.transpose, select_n_p.batch = _select_transpose, _select_batch

# ---- clamp
clamp_p = Primitive("clamp", elementwise=True)


def _clamp_abstract(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    check_dtypes("clamp", ANY, [low, x, high])
    for name, bound in (("min", low), ("max", high)):
        if bound.shape and bound.shape != x.shape:
            raise TypeError(explain(
                f"clamp requires {name}.shape == operand.shape or {name}.shape == (), got "
                f"{name}.shape={bound.shape}, operand.shape={x.shape}."))
    return ShapedArray(x.shape, x.dtype, all(a.weak_type for a in (low, x, high)))


def _where_partial(mask: Any, t: Any) -> Any:
    shape = shape_of(mask)
    return select_n(mask, match_shape(const(t, 0), shape), match_shape(t, shape))


clamp_p.abstract = _clamp_abstract
clamp_p.jvp = _jvp_from_partials(clamp_p, [
    lambda t, low, x, high, o: _where_partial(and_(gt(low, x), lt(low, high)), t),
    lambda t, low, x, high, o: _where_partial(and_(gt(x, low), lt(x, high)), t),
    lambda t, low, x, high, o: _where_partial(lt(high, x), t)])


def _clamp_batch(size: int, args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    low, x, high = args
    if dims[0] is None and dims[2] is None and not ndim_of(low) and not ndim_of(high):
        return clamp(low, x, high), dims[1]
    return batch_elementwise(clamp_p, scalars=False)(size, args, dims)


clamp_p.batch = _clamp_batch

# ---- values that pass through: copy, stop_gradient
copy_p = _elementwise("copy", ANY, (lambda t, x, o: (  # (one that was a number is copied, too)
    t if current.get().number(t) is t else copy(t)),), moves=True, memory="view", keys=True)
copy_p.transpose = lambda ct, x: [ct]
stop_gradient_p = _elementwise("stop_gradient", ANY, arity=1, moves=True, memory="view", keys=True)

# ---- primitives as functions of values
add, sub, mul, div, rem = add_p.bind, sub_p.bind, mul_p.bind, div_p.bind, rem_p.bind
neg, abs_, sign, square = neg_p.bind, abs_p.bind, sign_p.bind, square_p.bind
max_, min_, clamp, add_any = max_p.bind, min_p.bind, clamp_p.bind, add_any_p.bind
pow_, sqrt, rsqrt = pow_p.bind, sqrt_p.bind, rsqrt_p.bind
exp, exp2, expm1 = exp_p.bind, exp2_p.bind, expm1_p.bind
log, log1p, logistic = log_p.bind, log1p_p.bind, logistic_p.bind
sin, cos, tan, atan2 = sin_p.bind, cos_p.bind, tan_p.bind, atan2_p.bind
sinh, cosh, tanh = sinh_p.bind, cosh_p.bind, tanh_p.bind
erf, erfc, erf_inv = erf_p.bind, erfc_p.bind, erf_inv_p.bind
floor, ceil, round_, is_finite = floor_p.bind, ceil_p.bind, round_p.bind, is_finite_p.bind
eq, ne, lt, le, gt, ge = eq_p.bind, ne_p.bind, lt_p.bind, le_p.bind, gt_p.bind, ge_p.bind
and_, or_, xor, not_ = and_p.bind, or_p.bind, xor_p.bind, not_p.bind
shift_left, shift_right_logical = shift_left_p.bind, shift_right_logical_p.bind
population_count, clz = population_count_p.bind, clz_p.bind
real, imag, complex_, conj = real_p.bind, imag_p.bind, complex_p.bind, conj_p.bind
bitcast_convert_type, select_n = bitcast_convert_type_p.bind, select_n_p.bind
copy, stop_gradient = copy_p.bind, stop_gradient_p.bind
