"""vmap of objects that a library takes apart (register_vmappable), against loops over them."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.interpreters import batching


class Named:
    """An array with names of its axes; vmap takes one of these away and puts it back."""

    def __init__(self, names: str, data: Any) -> None:
        self.names, self.data = names, data


class Axis:
    """An entry of in_axes or out_axes."""

    def __init__(self, name: str, at: int) -> None:
        self.name, self.at = name, at


def element(take: Any, index: Any, x: Named, spec: Axis) -> Named:
    assert x.names[spec.at] == spec.name
    return Named(x.names.replace(spec.name, ""), take(x.data, spec.at))


def whole(give: Any, size: int, x: Named, spec: Axis) -> Named:
    return Named(x.names[:spec.at] + spec.name + x.names[spec.at:], give(size, x.data, spec.at))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    batching.register_vmappable(Named, Axis, int, element, whole, None)
    yield
    batching.unregister_vmappable(Named)


DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("out", [0, 1])
def test_elements_and_wholes(jit: bool, axis: int, out: int) -> None:
    def f(x: Named, y: Any, scale: Any) -> Any:
        assert x.names == "ijk".replace("ijk"[axis], "") and x.data.ndim == 2
        return {"named": Named(x.names, x.data * y + scale), "plain": jnp.sin(y) * scale}

    def mapped(data: Any, y: Any) -> Any:
        made = calque.vmap(f, in_axes=(Axis("ijk"[axis], axis), 0, None),
                           out_axes={"named": Axis("b", out), "plain": 0},
                           axis_size=DATA.shape[axis])(Named("ijk", data), y, 0.5)
        assert made["named"].names == ("b" + "ijk".replace("ijk"[axis], "")
                                       if out == 0 else "ijk".replace("ijk"[axis], "")[0] + "b"
                                       + "ijk".replace("ijk"[axis], "")[1])
        return made["named"].data, made["plain"]
    y = np.linspace(-1, 1, DATA.shape[axis], dtype=np.float32)
    named, plain = (calque.jit(mapped) if jit else mapped)(DATA, y)
    want = np.stack([np.take(DATA, i, axis) * v + 0.5 for i, v in enumerate(y)], out)
    np.testing.assert_allclose(named, want, rtol=1e-6)
    np.testing.assert_allclose(plain, np.sin(y) * 0.5, rtol=1e-6)


def test_nested_and_differentiated() -> None:
    """Two axes taken away one after another, in a derivative by the data and by what is mapped."""
    def rows(x: Named, w: Any) -> Any:
        return calque.vmap(lambda r, v: (r.data * v).sum() ** 2, in_axes=(Axis("j", 0), None),
                           axis_size=3)(x, w)

    def loss(data: Any, w: Any) -> Any:
        outer = calque.vmap(rows, in_axes=(Axis("i", 0), 0), axis_size=2)
        return outer(Named("ijk", data), w).sum()
    w = np.array([0.5, -2.0], np.float32)
    by_data, by_w = calque.jit(calque.grad(loss, (0, 1)))(DATA, w)
    sums = DATA.sum(2)
    np.testing.assert_allclose(by_w, (2 * w[:, None] * sums ** 2).sum(1), rtol=1e-5)
    np.testing.assert_allclose(by_data, np.broadcast_to(
        (2 * w[:, None] ** 2 * sums)[..., None], DATA.shape), rtol=1e-5)


def test_what_is_not_mapped_and_errors() -> None:
    x = Named("ijk", jnp.asarray(DATA))
    with_all = calque.vmap(lambda v, n: n + v.data.sum(), in_axes=(None, 0))
    assert with_all(x, jnp.arange(2)).tolist() == [276, 277]
    numbered = []
    batching.register_vmappable(Named, Axis, int, lambda take, index, x, spec: numbered.append(
        index()) or take(x.data, spec.at) * numbered[-1], whole, None)
    assert calque.vmap(lambda v: v.sum(), in_axes=Axis("i", 0), axis_size=2)(x).tolist() == [0, 210]
    batching.register_vmappable(Named, Axis, int, element, whole, None)
    for call, text in (
            (lambda: calque.vmap(lambda v: v.data, in_axes=Axis("i", 0))(x), "axis_size"),
            (lambda: calque.vmap(lambda v: v.data, in_axes=Axis("i", 0), axis_size=3)(x),
             "an axis of size 2 in an object of Named, and axis_size is 3"),
            (lambda: calque.vmap(lambda v: v, in_axes=Axis("i", 0), out_axes=(Axis("i", 0), 0),
                                 axis_size=2)(x), "must be a tree prefix")):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="vmap in_axes must be an int, None"):
        calque.vmap(jnp.sin, in_axes="i")
