"""Callables and values as Python programs have them, through every transformation that takes them.

Each row is tried with each callable or object; the oracle is Python: the callable itself, called.
"""
from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core import naming


# ---- what is wrapped
class Named:
    """An object that is called, whose name is what a test says."""

    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)

    def __call__(self, x: Any) -> Any:
        return x * 2

    def method(self, x: Any) -> Any:
        return x * 2


class NoAttribute(Named):
    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class NameRaises(Named):
    @property
    def __name__(self) -> str:
        raise RuntimeError


class AnyAttribute(Named):
    def __getattr__(self, name: str) -> Any:
        return self


class Slots:
    __slots__ = ()

    def __call__(self, x: Any) -> Any:
        return x * 2


def double(x: Any, k: Any = 2) -> Any:
    return x * k


CALLABLES: dict[str, Callable[[Any], Any]] = {
    "partial": functools.partial(double, k=2), "partial of a builtin": functools.partial(
        operator.mul, 2), "partial of an object": functools.partial(Named()),
    "no name": Named(), "None": Named(__name__=None), "a number": Named(__name__=3, __doc__=4),
    "raises": NameRaises(), "no attributes": NoAttribute(), "any attribute": AnyAttribute(),
    "slots": Slots(), "bound method": Named().method, "builtin": operator.neg,
    "jnp": functools.partial(jnp.multiply, 2), "jitted": calque.jit(double),
    "tree": calque.tree_util.Partial(double, k=2.0)}


def _custom_jvp(f: Any) -> Any:
    made = calque.custom_jvp(f)
    made.defjvp(lambda p, t: (f(p[0]), t[0]))
    return made


def _custom_vjp(f: Any) -> Any:
    made = calque.custom_vjp(f)
    made.defvjp(lambda x: (f(x), None), lambda r, c: (c,))
    return made


def _custom_vmap(f: Any) -> Any:
    made = calque.custom_batching.custom_vmap(f)
    made.def_vmap(lambda size, batched, *xs: (f(*xs), True))
    return made


WRAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "jit": lambda f, x: calque.jit(f)(x), "vmap": lambda f, x: calque.vmap(f)(x),
    "checkpoint": lambda f, x: calque.checkpoint(f)(x),
    "value_and_grad": lambda f, x: calque.vmap(calque.value_and_grad(f))(x)[0],
    "grad of it": lambda f, x: calque.grad(f)(1.0) * x, "jacfwd": lambda f, x: calque.jacfwd(
        f)(1.0) * x, "hessian": lambda f, x: f(x) + calque.hessian(f)(1.0),
    "jvp": lambda f, x: calque.jvp(f, (x,), (x,))[1], "vjp": lambda f, x: calque.vjp(f, x)[0],
    "linearize": lambda f, x: calque.linearize(f, x)[0],
    "custom_jvp": lambda f, x: _custom_jvp(f)(x), "custom_vjp": lambda f, x: _custom_vjp(f)(x),
    "custom_vmap": lambda f, x: calque.vmap(_custom_vmap(f))(x),
    "eval_shape": lambda f, x: f(x) + 0 * jnp.ones(calque.eval_shape(f, x).shape),
    "make_jaxpr": lambda f, x: calque.core.eval_jaxpr(
        calque.make_jaxpr(f)(x).jaxpr, calque.make_jaxpr(f)(x).consts, x)[0],
    "closure_convert": lambda f, x: calque.closure_convert(f, x)[0](x),
    "map": lambda f, x: lax.map(f, x), "cond": lambda f, x: lax.cond(True, f, f, x),
    "switch": lambda f, x: lax.switch(0, [f, f], x),
    "pure_callback": lambda f, x: calque.pure_callback(
        lambda v: np.asarray(f(v)), calque.ShapeDtypeStruct(x.shape, x.dtype), x),
    "vectorize": lambda f, x: jnp.vectorize(f)(x), "named_call": lambda f, x: calque.named_call(
        f)(x), "tree.map": lambda f, x: calque.tree.map(f, [x])[0]}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_whatever_is_called_can_be_wrapped(wrapper: str) -> None:
    x = jnp.arange(3.0)
    with calque.disable_jit(wrapper not in ("jit", "custom_vmap")):
        for name, f in CALLABLES.items():
            found = WRAPPERS[wrapper](f, x)
            np.testing.assert_array_equal(found, np.arange(3.0) * (
                -1 if name == "builtin" else 2), err_msg=name)


def test_names_of_anything() -> None:
    assert [naming.name_of(f) for f in CALLABLES.values()] == [
        "double", "mul", "Named", "Named", "Named", "Named", "NameRaises", "NoAttribute",
        "AnyAttribute", "Slots", "method", "neg", "multiply", "double", "double"]
    loop = AnyAttribute()
    assert naming.innermost(loop) is loop
    assert all(naming.signature_of(f) is None for f in (NoAttribute(), AnyAttribute()))
    assert not naming.makes_generators(NoAttribute())


# ---- what is handed on
class Mode(enum.Enum):
    A = 1


OBJECTS: list[Any] = [object(), "text", jnp.sin, np.dtype("float32"), int, b"x", {1}, slice(1),
                      ..., np, Mode.A, np.array(["a"]), {"f": jnp.sin, "s": "t", "n": 2.0}]


def _double(x: Any, o: Any) -> Any:
    return x * 2


HANDED: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda o: calque.vmap(_double, (0, None))(jnp.ones(2), o)[0],
    "vmap of a dict": lambda o: calque.vmap(lambda d: d["x"] * 2, ({"x": 0, "o": None},))(
        {"x": jnp.ones(2), "o": o})[0],
    "vmap in vmap": lambda o: calque.vmap(calque.vmap(_double, (0, None)), (0, None))(
        jnp.ones((1, 2)), o)[0, 0],
    "nondiff": lambda o: 2 * calque.grad(_nondiff())(1.0, o) / 2,
    "excluded": lambda o: jnp.vectorize(_double, excluded={1})(jnp.ones(2), o)[0]}


def _nondiff() -> Any:
    made = calque.custom_vjp(_double, nondiff_argnums=(1,))
    made.defvjp(lambda x, o: (x * 2, None), lambda o, r, c: (c * 2,))
    return made


@pytest.mark.parametrize("way", HANDED)
def test_objects_are_handed_on(way: str) -> None:
    for o in OBJECTS:
        assert HANDED[way](o) == 2, o


AUX: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: calque.grad(f, has_aux=True)(1.0),
    "value_and_grad": lambda f: calque.value_and_grad(f, has_aux=True)(1.0)[0],
    "vjp": lambda f: calque.vjp(f, 1.0, has_aux=True)[::2],
    "jvp": lambda f: calque.jvp(f, (1.0,), (1.0,), has_aux=True)[1:],
    "linearize": lambda f: calque.linearize(f, 1.0, has_aux=True)[::2],
    "jacrev": lambda f: calque.jacrev(f, has_aux=True)(1.0)}


@pytest.mark.parametrize("way", AUX)
def test_auxiliary_results_are_of_any_type(way: str) -> None:
    for o in OBJECTS:
        _, aux = AUX[way](lambda x, o=o: (x, (x * 3, o, 7, np.ones(1))))
        assert aux[0] == 3 and isinstance(aux[0], calque.Array) and type(aux[2]) is int
        assert aux[1] is o or aux[1] == o


# ---- numbers that are subclasses
class Three(enum.IntEnum):
    THREE = 3


class Flag(enum.IntFlag):
    THREE = 3


class Int(int):
    pass


class Float(float):
    pass


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda v: calque.jit(lambda c: c + 1)(v), "asarray": lambda v: jnp.asarray(v) + 1,
    "vmap": lambda v: calque.vmap(lambda x, c: x + c, (0, None))(jnp.ones(2), v)[0],
    "fori_loop": lambda v: lax.fori_loop(0, 1, lambda i, c: c + 1, v),
    "while_loop": lambda v: lax.while_loop(lambda c: c < 4, lambda c: c + 1, v),
    "scan": lambda v: lax.scan(lambda c, x: (c + 1, x), v, None, length=1)[0],
    "cond": lambda v: lax.cond(True, lambda c: c + 1, lambda c: c, v),
    "add": lambda v: 1 + jnp.zeros(()) + v, "where": lambda v: jnp.where(True, v, 0) + 1,
    "full": lambda v: jnp.full(1, v)[0] + 1, "at": lambda v: jnp.zeros(2).at[1].set(v)[1] + 1,
    "jvp": lambda v: calque.jvp(lambda c: c + 1.0, (Float(v),), (Float(1),))[0],
    "tree": lambda v: calque.flatten_util.ravel_pytree([v])[0][0] + 1,
    "checkpoint": lambda v: calque.checkpoint(lambda c: c + 1)(v),
    "lax": lambda v: lax.add(jnp.float32(1), lax.convert_element_type(v, "float32"))}


@pytest.mark.parametrize("way", NUMBERS)
def test_subclasses_of_numbers_are_numbers(way: str) -> None:
    with calque.disable_jit(way != "jit"):
        for v in (Three.THREE, Flag.THREE, Int(3), Float(3.0), np.float64(3), np.int64(3)):
            assert NUMBERS[way](v) == 4, v


@pytest.mark.parametrize("v", [Three.THREE, Int(3)])
def test_they_are_sizes_and_places(v: Any) -> None:
    x = jnp.arange(4.0)
    assert x[v] == 3 and x[:v].shape == jnp.zeros(v).shape == jnp.arange(v).shape == (3,)
    assert lax.switch(v, [lambda: 0] * 3 + [lambda: 1]) == 1
    assert jnp.ones((1, 1, 1, 2)).sum(v).shape == (1, 1, 1) and x.at[v].get() == 3
