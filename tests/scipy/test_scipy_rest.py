"""scipy.ndimage, cluster.vq, interpolate and spatial.transform against SciPy and values of JAX."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import interpolate as interpolation
from scipy import ndimage as image_oracle
from scipy.spatial.transform import Rotation as Oracle
from scipy.spatial.transform import Slerp as SlerpOracle
from support.harness import by_each, numpys

import calque
import calque.numpy as jnp
from calque.scipy import ndimage
from calque.scipy.cluster.vq import vq
from calque.scipy.interpolate import RegularGridInterpolator
from calque.scipy.spatial.transform import Rotation, Slerp

MODES = {"constant": "grid-constant", "nearest": "nearest", "mirror": "mirror",
         "wrap": "grid-wrap", "reflect": "reflect"}
SEQUENCES = ("zyx", "XYZ", "YXY")


def _close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("jit, cases", by_each(
    [(mode, order) for mode in MODES for order in (0, 1)], 0.2, lambda c: c[1]))
def test_coordinates_in_every_mode(jit: Any, cases: list[tuple[str, int]], x64: None) -> None:
    rng = np.random.default_rng(0)
    a, at = rng.standard_normal((3, 4)), rng.uniform(-6, 9, (2, 60))
    found, slope = jit(lambda a, at: (
        [ndimage.map_coordinates(a, at, order, mode, cval=0.5) for mode, order in cases],
        calque.grad(lambda t: ndimage.map_coordinates(a, [t, jnp.full(2, 1.25)], 1).sum())(
            jnp.array([0.5, 1.5]))))(a, at)
    for (mode, order), got in zip(cases, found):
        _close(got, image_oracle.map_coordinates(a, at, order=order, mode=MODES[mode], cval=0.5))
    _close(slope, np.diff(a[:, 1] * 0.75 + a[:, 2] * 0.25))


def test_coordinates_of_integers_and_edges() -> None:
    a = jnp.arange(12).reshape(3, 4)
    at = [jnp.array([0.5, 1.5, -1, 5]), jnp.array([1.5, 2.5, 0.2, 9])]
    np.testing.assert_array_equal(ndimage.map_coordinates(a, at, 1, cval=2.5), [4, 9, 2, 2])
    line = ndimage.map_coordinates(jnp.arange(6), [jnp.array([0.5, 1.5, 2.5, -0.5])], 0)
    np.testing.assert_array_equal(line, [1, 2, 3, 0])  # halves away from zero
    assert line.dtype == "int32"
    assert ndimage.map_coordinates(a.astype(bool), at, 1).dtype == "bool"
    one = ndimage.map_coordinates(jnp.ones(1), [jnp.array([0.5, 1.5, -2.0])], 1, "mirror")
    np.testing.assert_array_equal(one, [1, 1, 1])
    nan = ndimage.map_coordinates(a * 1.0, [jnp.array([np.nan, 0.5, np.inf])] * 2, 1)
    np.testing.assert_array_equal(nan, [np.nan, 2.5, np.nan])
    assert ndimage.map_coordinates(a, [jnp.zeros((2, 0))] * 2, 1).shape == (2, 0)


def test_nearest_codes() -> None:
    rng = np.random.default_rng(0)
    obs, book = rng.standard_normal((20, 3)), rng.standard_normal((5, 3))
    code, distance = vq(obs, book)
    away = np.linalg.norm(obs[:, None] - book, axis=-1)
    np.testing.assert_array_equal(code, away.argmin(1))
    np.testing.assert_allclose(distance, away.min(1), rtol=1e-6)
    code, distance = vq(np.array([3, -2, 9]), np.array([4, -4]))
    assert code.tolist() == [0, 1, 0] and distance.tolist() == [1, 2, 5]
    code, distance = vq(jnp.array([[np.nan, 1.0]]), jnp.ones((2, 2)))
    assert code.tolist() == [0] and np.isnan(distance).all()


@pytest.mark.parametrize("jit, cases", by_each(
    [(method, fill) for method in ("linear", "nearest") for fill in (np.nan, 3.0, None)], 0.3))
def test_a_regular_grid(jit: Any, cases: list[tuple[str, float | None]], x64: None) -> None:
    rng = np.random.default_rng(0)
    grid = np.array([0.0, 1, 3]), np.array([2.0, 2.5, 4, 7])
    values = rng.standard_normal((3, 4, 2))
    at = np.concatenate([rng.uniform(-1, 8, (40, 2)), [[0, 2.0], [3, 7], [1, 2.5], [0.5, 2.25],
                                                       [np.nan, 3]]])
    found = jit(lambda at: [RegularGridInterpolator(grid, values, m, fill_value=f)(at)
                            for m, f in cases])(at)
    for (method, fill), got in zip(cases, found):
        _close(got, interpolation.RegularGridInterpolator(
            grid, values, method, bounds_error=False, fill_value=fill)(at))
    line = RegularGridInterpolator((grid[0],), np.array([1.0, 2, 4]))
    _close(line(np.array([0.5, 2.0])), [1.5, 3.0])
    _close(line((np.array([0.5]),), method="nearest"), [1.0])
    assert line(np.zeros((0, 1))).shape == (0,)


@pytest.mark.parametrize("jit, parts, sequences", [
    (numpys, range(13), SEQUENCES), (calque.jit, (0, 3, 7), ()),
    pytest.param(calque.jit, (1, 2, 4, 5, 6, 8, 9, 10, 11, 12), SEQUENCES,
                 marks=pytest.mark.slow)], ids=["numpy", "some", "more"])
def test_rotations(jit: Any, parts: Sequence[int], sequences: Sequence[str],
                   x64: None) -> None:
    rng = np.random.default_rng(0)
    quat, vectors, angles = rng.standard_normal((6, 4)), rng.standard_normal((6, 3)), (
        rng.uniform(-3, 3, (6, 3)))
    o, weights = Oracle.from_quat(quat), rng.random(6)

    m = o.as_matrix()
    every: list[tuple[Any, Any]] = [
        (lambda r: r.as_matrix(), m), (lambda r: r.as_rotvec(), o.as_rotvec()),
        (lambda r: r.as_mrp(), o.as_mrp()),
        (lambda r: r.as_quat(canonical=True), o.as_quat(canonical=True)),
        (lambda r: r.magnitude(), o.magnitude()),
        (lambda r: r.inv().as_matrix(), o.inv().as_matrix()),
        (lambda r: (r * r[0]).as_matrix(), (o * o[0]).as_matrix()),
        (lambda r: r.apply(vectors), o.apply(vectors)),
        (lambda r: r.mean(weights).as_matrix(), o.mean(weights).as_matrix()),
        (lambda r: r.apply(vectors[0], inverse=True), o.apply(vectors[0], inverse=True)),
        (lambda r: Rotation.from_matrix(r.as_matrix()).as_matrix(), m),
        (lambda r: Rotation.from_rotvec(r.as_rotvec(degrees=True), degrees=True).as_matrix(), m),
        (lambda r: Rotation.from_mrp(r.as_mrp()).as_matrix(), m)]

    def program(quat: Any) -> Any:
        r = Rotation.from_quat(quat)
        return [every[i][0](r) for i in parts], [
            (r.as_euler(s), Rotation.from_euler(s, angles).as_matrix()) for s in sequences]

    found, turned = jit(program)(quat)
    for got, i in zip(found, parts, strict=True):
        _close(got, every[i][1])
    for s, (read, made) in zip(sequences, turned):
        _close(read, o.as_euler(s))
        _close(made, Oracle.from_euler(s, angles).as_matrix())


@pytest.mark.slow
def test_rotations_at_their_edges() -> None:
    half = np.stack([2 * np.outer(e, e) - np.eye(3) for e in np.eye(3)])  # by pi
    turned, quat, slope, little, drawn = calque.jit(lambda half, zero, small: (
        Rotation.from_matrix(half).as_matrix(), Rotation.from_rotvec(zero).as_quat(),
        calque.grad(lambda v: Rotation.from_rotvec(v).as_rotvec().sum())(zero),
        Rotation.from_rotvec(small).as_rotvec(),
        Rotation.random(calque.random.key(0), 500).apply(jnp.array([1.0, 0, 0]))))(
            half, np.zeros(3), np.array([1e-4, 0, 0]))
    np.testing.assert_allclose(turned, half, atol=1e-6)
    np.testing.assert_array_equal(quat, [0, 0, 0, 1])
    np.testing.assert_array_equal(slope, [1, 1, 1])
    np.testing.assert_allclose(little, [1e-4, 0, 0], rtol=1e-6)
    # outside of jit: whether the axes lock hangs on the rounding of each operation
    locked = Rotation.from_euler("zyx", jnp.array([0.3, np.pi / 2, 0.2]))
    np.testing.assert_allclose(locked.as_euler("zyx"), [0.5, np.pi / 2, 0], atol=1e-3)
    one = Rotation.from_quat([1, 2, 3, 4])
    assert one.single and calque.tree.leaves(one)[0].shape == (4,)
    assert one.as_quat(scalar_first=True)[0] == one.quat[3]
    assert len(Rotation.identity(3)) == 3 and Rotation.identity().single
    assert len(Rotation.concatenate([Rotation.identity(2), Rotation.identity(1)])) == 3
    assert np.isnan(Rotation.from_quat(jnp.zeros(4)).quat).all()
    np.testing.assert_allclose(drawn.mean(0), 0, atol=0.1)


def test_arcs_between_rotations(x64: None) -> None:
    rng = np.random.default_rng(1)
    quat, times = rng.standard_normal((5, 4)), np.array([0.0, 1, 1.5, 4, 5])
    at = np.concatenate([rng.uniform(0, 5, 9), times])
    found = Slerp.init(times, Rotation.from_quat(quat))(at)
    _close(found.as_matrix(), SlerpOracle(times, Oracle.from_quat(quat))(at).as_matrix())
    assert Slerp.init(times, Rotation.from_quat(quat))(0.5).single


GRID = (np.array([0.0, 1.0]),)
TURN = Rotation.identity(2)


@pytest.mark.parametrize("call, error, text", [
    (lambda: ndimage.map_coordinates(jnp.ones(3), [jnp.ones(1)], 2), NotImplementedError,
     "requires order<=1"),
    (lambda: ndimage.map_coordinates(jnp.ones(3), [jnp.ones(1)], 1, "foo"), NotImplementedError,
     "does not yet support mode foo"),
    (lambda: ndimage.map_coordinates(jnp.ones((3, 3)), [jnp.ones(1)], 1), ValueError,
     "sequence of length input.ndim, but 1 != 2"),
    (lambda: ndimage.map_coordinates(jnp.ones(3), [1j * jnp.ones(1)], 1), TypeError, "complex64"),
    (lambda: vq(jnp.ones((2, 3)), jnp.ones((2, 4))), TypeError, "incompatible shapes"),
    (lambda: vq(jnp.ones(3), jnp.ones((2, 3))), ValueError, "should have the same rank"),
    (lambda: vq(jnp.ones((1, 1, 1)), jnp.ones((1, 1, 1))), ValueError, "ndim different than 1"),
    (lambda: vq(jnp.ones((2, 3)), jnp.ones((0, 3))), ValueError, "argmin of an empty sequence"),
    (lambda: vq([1.0], [2.0]), TypeError, "requires ndarray or scalar"),
    (lambda: RegularGridInterpolator(GRID, jnp.ones(2), "cubic"), ValueError, "is not defined"),
    (lambda: RegularGridInterpolator(GRID, jnp.ones(2), bounds_error=True), NotImplementedError,
     "bounds_error"),
    (lambda: RegularGridInterpolator(GRID * 2, jnp.ones(2)), ValueError, "2 point arrays"),
    (lambda: RegularGridInterpolator(GRID, jnp.ones(3)), ValueError, "1-dimensional, of 3"),
    (lambda: RegularGridInterpolator(GRID, jnp.ones(2), fill_value=1j), ValueError, "fill_value"),
    (lambda: RegularGridInterpolator(GRID, jnp.ones(2))(jnp.ones((2, 3))), ValueError,
     "have dimension 3"),
    (lambda: len(Rotation.identity()), TypeError, "has no len"),
    (lambda: Rotation.identity()[0], TypeError, "not subscriptable"),
    (lambda: Rotation.from_quat(jnp.ones(3)), ValueError, "expected real values of shape"),
    (lambda: TURN.as_euler("zz"), ValueError, "Expected 3 axes, got zz"),
    (lambda: Rotation.from_euler("abc", jnp.ones(3)), ValueError, "Expected axes from `seq`"),
    (lambda: Rotation.from_euler("zzx", jnp.ones(3)), ValueError, "consecutive axes"),
    (lambda: Rotation.from_euler("xyzx", jnp.ones(4)), ValueError, "non-empty string of upto 3"),
    (lambda: Rotation.from_euler("zyx", jnp.ones(2)), ValueError, "inconsistent size"),
    (lambda: TURN.mean(jnp.ones(3)), ValueError, "number of values equal to number of rotations"),
    (lambda: TURN * 2, TypeError, "unsupported operand"),
    (lambda: Slerp.init(jnp.ones(1), Rotation.identity()), ValueError, "at least 2 rotations"),
    (lambda: Slerp.init(jnp.ones(3), TURN), ValueError, "2 rotations and 3 timestamps"),
    (lambda: Slerp.init(jnp.array([0.0, 1]), TURN)(jnp.ones((2, 2))), ValueError,
     "at most 1-dimensional"),
])
def test_what_is_refused(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()
