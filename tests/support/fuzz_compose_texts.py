"""Programs that are text for calque and for JAX: odd Python values, and float0.

The answers of both are compared: values, dtypes, weak types, structures, and classes of errors
(see fuzz_compose.py).
"""
from __future__ import annotations

import re
from typing import Any

import calque
from support import fuzz_compose_jax
from support.fuzz_api_check import error_class
from support.fuzz_compose_draw import Trial, pick
from support.tolerances import difference

VALUES = [
    "True", "False", "0", "1", "-1", "3", "2**31 - 1", "-2**31", "2**31", "-2**31 - 1", "2**63",
    "2**64", "10**30", "0.5", "-0.0", "float('nan')", "float('inf')", "-float('inf')", "1e40",
    "1e-46", "5e-324", "1j", "complex(1, -0.0)", "complex('nan')", "None", "IntOf(3)",
    "FloatOf(.5)", "ComplexOf(1j)", "Colour.RED", "Fraction(1, 2)", "Decimal(1)", "'a'", "b'a'",
    "np.bool_(True)", "np.float32(1.5)", "np.float64(1.5)", "np.float16(2)", "np.int8(-3)",
    "np.int64(5)", "np.int64(2**40)", "np.uint64(2**63)", "np.uint8(200)", "np.complex64(1j)",
    "jnp.bfloat16(2)", "np.array(2)", "np.array(2.5, 'f4')", "np.array([1, 2, 3])", "[1, 2, 3]",
    "(1., 2., 3.)", "[]", "np.ma.masked_array([1., 2., 3.])", "np.datetime64('2020-01-01')",
    "range(3)", "jnp.float32(2)", "jnp.int32(2)", "np.float64('nan')", "np.str_('a')", "...",
    "slice(None)", "object()", "np.array([1, 2, 3])[::-1]", "np.array(['a'])", "[True, 2, .5]",
    "[1, [2]]", "np.longdouble(1)", "memoryview(b'abc')", "bytearray(b'abc')"]
ARRAYS = [
    "jnp.array([1., -2., 3.])", "jnp.array([1, -2, 3])", "jnp.array([True, False, True])",
    "jnp.array([1, 2, 3], 'uint8')", "jnp.array([1., 2., 3.], 'bfloat16')",
    "jnp.array([1j, 2, 3])", "jnp.float32(2)", "jnp.int32(7)", "np.array([1., 2., 3.])",
    "np.array([1, 2, 3])", "jnp.array([1, 2, 3], 'int8')", "jnp.asarray(2.)", "jnp.zeros((0,))"]
TEXTS = [
    "A + V", "V + A", "A - V", "V - A", "A * V", "V * A", "A / V", "V / A", "A // V", "A % V",
    "A ** V", "V ** A", "A == V", "A != V", "A < V", "V >= A", "A & V", "V | A", "A ^ V", "A << V",
    "A >> V", "jnp.add(A, V)", "jnp.multiply(V, A)", "jnp.maximum(V, A)", "jnp.minimum(A, V)",
    "jnp.power(A, V)", "jnp.where(A > 0, V, A)", "jnp.where(V, A, 0)", "jnp.asarray(V)",
    "jnp.array(V)", "jnp.array([V, W])", "jnp.stack([A, A * V])", "jnp.full((2,), V)",
    "jnp.full_like(A, V)", "jnp.clip(A, V, W)", "A.at[0].set(V)", "A.at[...].add(V)",
    "A.at[V].get(mode='clip')", "jnp.sum(A, initial=V)", "jnp.pad(A, 1, constant_values=V)",
    "lax.add(A, V)", "lax.mul(V, A)", "lax.max(A, V)", "lax.full_like(A, V)", "lax.full((2,), V)",
    "jax.jit(lambda x, y: x + y)(A, V)", "jax.jit(lambda t: t)({'a': V, 'b': (A, None, V)})",
    "jax.jit(lambda x: x + V)(A)", "jax.vmap(lambda a: a + V)(A)", "jax.grad(jnp.sin)(V)",
    "jax.vmap(lambda a, v: a * v, in_axes=(0, None))(A, V)", "jnp.sin(V)", "jnp.abs(V)", "-V + A",
    "jax.value_and_grad(lambda x: jnp.sum(x * V))(A)", "lax.cond(V, lambda x: x, lambda x: -x, A)",
    "lax.switch(V, [lambda x: x, lambda x: -x], A)", "jnp.linspace(V, 1, 3)", "jnp.sign(V)",
    "lax.scan(lambda c, x: (c, x), V, A)", "lax.fori_loop(0, 2, lambda i, c: c + 1, V)",
    "lax.while_loop(lambda c: False, lambda c: c, V)", "jax.device_put(V)", "jnp.isnan(V)",
    "jax.device_put({'a': V, 'b': [W, None]})", "jnp.result_type(A, V).name", "jnp.shape(V)",
    "jax.eval_shape(lambda x: x, V).dtype.name", "jnp.take(A, V, mode='clip')", "jnp.isfinite(V)",
    "lax.convert_element_type(V, 'float32')", "jnp.concatenate([A, jnp.atleast_1d(V)])",
    "jnp.dot(A, V)", "jnp.round(V)", "jnp.copysign(1., V)", "jnp.signbit(V)", "jnp.real(V)",
    "jnp.mod(A, V)", "jnp.remainder(V, A)", "jnp.floor_divide(V, A)", "jnp.float_power(A, V)",
    "jax.jvp(lambda x: x * 2, (A,), (V,))", "jax.vjp(lambda x: x * 2, A)[1](V)", "jnp.isin(A, V)",
    "jax.linearize(lambda x: x * 2, A)[1](V)", "jnp.searchsorted(jnp.arange(3.), V)", "A @ V",
    "jax.tree.map(lambda x: x, {'a': V, 'b': None})", "lax.select(jnp.array(True), V, W)",
    "lax.clamp(V, A, W)", "jnp.arange(3, dtype='float32') * V", "jnp.sum(V)", "jnp.max(V)",
    "jnp.reshape(V, (1,))", "jnp.broadcast_to(V, (2, 3))", "jnp.equal(V, W)", "jnp.hypot(V, A)",
    "jnp.logical_and(V, A)", "jnp.bitwise_and(V, A)", "jnp.left_shift(A, V)", "jnp.ldexp(A, V)",
    "jax.nn.relu(V)", "jnp.nan_to_num(A, nan=V)", "lax.pow(A, V)", "lax.integer_pow(A, V)"]
FLOAT0 = [
    "jax.grad(lambda x: jnp.sum(x * 2.), allow_int=True)(I)",
    "jax.vjp(lambda x, i: x * i, X, I)[1](X)", "jax.vjp(lambda i: i * 2, I)[1](Z)",
    "jax.jvp(lambda x, i: x * i, (X, I), (X, Z))", "jax.jvp(lambda i: (i + 1, i * 2.), (I,), (Z,))",
    "jax.jit(jax.grad(lambda x: jnp.sum(x * 2.), allow_int=True))(I)",
    "jax.jit(lambda: jax.vjp(lambda x, i: x * i, X, I)[1](X))()", "jax.jit(lambda z: z)(Z)",
    "jax.jit(lambda z, x: {'a': z, 'b': x * 2})(Z, X)", "jax.linearize(lambda i: i * 2, I)[1](Z)",
    "jax.linearize(lambda x, i: x * i, X, I)[1](X, Z)", "jax.tree.map(lambda z: z, [Z, X])",
    "jax.vmap(jax.grad(lambda x: x * 2., allow_int=True))(jnp.ravel(I))",
    "jax.vmap(lambda x, i: jax.vjp(lambda x, i: x * i, x, i)[1](x))(jnp.ravel(X), jnp.ravel(I))",
    "jax.value_and_grad(lambda t: jnp.sum(t['x'] * t['i']), allow_int=True)({'x': X, 'i': I})",
    "jax.jacfwd(lambda x: x * 2, )(X)", "jax.jacrev(lambda i: i * 2., allow_int=True)(I)",
    "jax.jacfwd(lambda i: i * 2.)(I)", "jax.grad(lambda i: jnp.sum(i * 2.))(I)",
    "jax.eval_shape(lambda z: z, Z).dtype == jax.dtypes.float0", "jnp.asarray(Z)", "Z + X",
    "jax.jit(lambda z: jnp.shape(z))(Z)", "lax.scan(lambda c, x: (c, x), 0., Z)",
    "lax.scan(lambda c, x: (c, Z), 0., jnp.arange(2.))", "jax.device_put(Z)", "jnp.zeros_like(Z)",
    "lax.cond(True, lambda: Z, lambda: Z)", "jax.checkpoint(lambda z, x: (z, x))(Z, X)",
    "jax.jvp(jax.jit(lambda x, i: (x * i, i + 1)), (X, I), (X, Z))", "jax.vmap(lambda z: z)(Z)",
    "jax.vjp(lambda i: lax.scan(lambda c, x: (c + x, c), 0., i * 1.), jnp.ravel(I))[1]((1., "
    "jnp.ravel(X) * 1.))", "jax.linear_transpose(lambda x: x * 2, X)(X)",
    "jax.jit(lambda x, i: jax.jvp(lambda x, i: (x * i, i), (x, i), (x, Z)))(X, I)",
    "jax.grad(lambda i: lax.cond(True, lambda j: jnp.sum(j * 2.), lambda j: 0., i), "
    "allow_int=True)(I)", "jax.jvp(lambda i: i, (I,), (I,))", "jnp.stack([Z, Z])",
    "jax.jvp(lambda i: lax.fori_loop(0, 2, lambda k, c: c + 1, i), (I,), (Z,))",
    "jax.jit(lambda i: jax.vjp(lambda j: (j * 2, j * 1.), i)[1]((Z, X)))(I)"]


def odd(rng: Any) -> Trial:
    """An odd value where a number or an array is expected."""
    text, x64 = pick(rng, TEXTS), bool(rng.integers(2))
    whole = (f"(lambda A, V, W: {text})({pick(rng, ARRAYS)}, {pick(rng, VALUES)}, "
             f"{pick(rng, VALUES)})")
    return asked(whole, x64)


def float0(rng: Any) -> Trial:
    """Derivatives of and by integers."""
    text, x64 = pick(rng, FLOAT0), bool(rng.integers(2))
    shape = pick(rng, [(), (2,), (2, 3), (0,), (1,)])
    dtype = pick(rng, ["int32", "int32", "uint8", "bool", "int8"])
    other = pick(rng, ["float32", "float32", "bfloat16", "float16"])
    whole = (f"(lambda X, I, Z: {text})(jnp.ones({shape}, '{other}'), jnp.ones({shape}, "
             f"'{dtype}'), np.zeros({shape}, jax.dtypes.float0))")
    return asked(whole, x64)


def asked(text: str, x64: bool) -> Trial:
    said: list[Any] = []

    def act() -> str:
        scope = fuzz_compose_jax.scope(calque)
        with calque.enable_x64(x64):
            said.append(fuzz_compose_jax.evaluated(calque, text, scope))
        kind, classes, message = (*said[0], "", "")[:3]
        if kind != "error":
            return ""
        if not any(re.search(part, message) for part in (*PARTS, *PYTHONS)):
            return f"{classes[0]} not in three parts: {message}"
        fine = error_class(classes) in FINE or "'numpy.ndarray' object has no" in message
        return "" if fine else f"{classes[0]}: {message}"

    def answered(theirs: Any) -> str:
        return compared(said[0], theirs)

    return Trial(f"x64 {x64}: {text}", act=act, question=text, answered=answered)


# errors of Python's and NumPy's own, before calque is asked
PYTHONS = ("unsupported operand type", "gufunc core with signature", "object has no attribute",
           "^an array", "object is not", "^'.*' not supported between", "bad operand type for",
           "has no len", "can only concatenate", "can't concat", "^ufunc ", "^The numpy boolean",
           "[Oo]nly integer scalar arrays", "inhomogeneous shape")
PARTS = ("Fix:", r"\n  In ")
FINE = ("TypeError", "ValueError", "OverflowError", "IndexError", "NotImplementedError",
        "ZeroDivisionError", "KeyError", "RuntimeError")


def compared(ours: Any, theirs: Any) -> str:
    """What differs between two answers of fuzz_compose_jax.evaluated."""
    if "error" in (ours[0], theirs[0]):
        mine, other = (error_class(a[1]) if a[0] == "error" else "fine" for a in (ours, theirs))
        return "" if mine == other else f"calque: {mine} {ours[1:]}; JAX: {other} {theirs[1:]}"
    if ours[1] != theirs[1]:
        return f"structure {ours[1]} instead of JAX's {theirs[1]}"
    for k, (a, b) in enumerate(zip(ours[2], theirs[2], strict=True)):
        if a[1:] != b[1:]:
            return f"leaf {k}: {a} instead of JAX's {b}"
        if a[1] not in ("float0", "float128") and not isinstance(a[0], str):
            wrong = difference(a[0], b[0], 30.)
            if wrong:
                return f"leaf {k}: {wrong}"
    return ""


__all__: list[str] = ["float0", "odd"]
