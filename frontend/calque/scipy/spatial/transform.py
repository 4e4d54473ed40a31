"""Rotation and Slerp: rotations in three dimensions as unit quaternions (x, y, z, w).

Everything maps over the leading axes of the quaternions.  Start reading at `Rotation`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calque import random as rng
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.numpy import linalg as nl
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.creation import asarray, ones
from calque.numpy.einsum import einsum
from calque.numpy.join import concatenate, stack
from calque.numpy.logic import where
from calque.numpy.picking import take_along_axis
from calque.numpy.products import cross
from calque.numpy.reductions import argmax
from calque.numpy.sorting import searchsorted
from calque.primitives import elementwise as ew

__all__ = ["Rotation", "Slerp"]
SMALL = 1e-3  # angles below: three terms of series


def __dir__() -> list[str]:
    return __all__


def _floats(name: str, x: Any, *tail: int) -> Any:
    """As an array of floats whose last axes are given."""
    x = util.inexact_arrays(f"Rotation.{name}", asarray(x))[0]
    shape = shape_of(x)
    if tail and shape[-len(tail):] != tail or util.is_complex(x):
        raise ValueError(explain(
            f"Rotation.{name}: expected real values of shape {('...', *tail)}, got "
            f"{dtype_of(x)} of shape {shape}.".replace("'...'", "..."),
            fix="put the components along the last axis."))
    return x


def _norm(x: Any) -> Any:
    """Length along the last axis, kept, with a derivative of 0 at 0."""
    square = rd.sum(x * x, axis=-1, keepdims=True)
    return where(square == 0, 0, ew.sqrt(where(square == 0, 1, square)))


def _unit(quat: Any) -> Any:
    norm = _norm(quat)
    return quat / norm  # NaN of zeros, as in JAX


def _product(p: Any, q: Any) -> Any:
    a, b = p[..., :3], q[..., :3]
    v, w = p[..., 3:], q[..., 3:]
    vector = v * b + w * a + cross(a, b)
    return concatenate([vector, v * w - rd.sum(a * b, axis=-1, keepdims=True)], -1)


def _canonical(quat: Any) -> Any:
    """The one of q and -q with w >= 0."""
    return where(quat[..., 3:] < 0, -quat, quat)


def _axes(seq: str) -> tuple[list[int], bool]:
    """Numbers of the axes, and whether they turn along."""
    if not isinstance(seq, str) or not 1 <= len(seq) <= 3:
        raise ValueError(explain("Expected axis specification to be a non-empty string of upto 3 "
                                 f"characters, got {seq}", fix="use letters as in 'zyx'."))
    if not (set(seq) <= set("xyz") or set(seq) <= set("XYZ")):
        raise ValueError(explain("Expected axes from `seq` to be from ['x', 'y', 'z'] or "
                                 f"['X', 'Y', 'Z'], got {seq}",
                                 fix="use small letters for fixed axes, large for moving ones."))
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise ValueError(explain(f"Expected consecutive axes to be different, got {seq}",
                                 fix="add the angles of equal neighbours."))
    return ["xyz".index(a) for a in seq.lower()], seq.isupper()


class Rotation(NamedTuple):
    """Rotations in three dimensions; a tree of one array of quaternions (x, y, z, w).

    Made by from_quat, from_matrix, from_rotvec, from_euler and from_mrp.

    Args:
      quat: float array of shape (4,) or (n, 4), of unit length.

    Raises:
      Nothing; from_quat takes any length.

    Source: Diebel, Representing attitude, 2006.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.spatial.transform import Rotation
      >>> r = Rotation.from_euler("z", 90.0, degrees=True)
      >>> r.apply(jnp.array([1.0, 0.0, 0.0])).round(4)
      Array([0., 1., 0.], dtype=float32)
    """

    quat: Any

    # ---- from
    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """Of quaternions (x, y, z, w) of any length but 0."""
        return cls(_unit(_floats("from_quat", quat, 4)))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """Of rotation matrices, shape (..., 3, 3): of four forms the one with the largest pivot
        (Markley 2008)."""
        m = _floats("from_matrix", matrix, 3, 3)
        a, b, c = (m[..., i, i] for i in range(3))
        trace = a + b + c
        x, y, z = (m[..., k, j] - m[..., j, k] for j, k in ((1, 2), (2, 0), (0, 1)))
        p, q, r = (m[..., j, k] + m[..., k, j] for j, k in ((0, 1), (0, 2), (1, 2)))
        forms = stack([stack(f, -1) for f in (
            (1 - trace + 2 * a, p, q, x), (p, 1 - trace + 2 * b, r, y),
            (q, r, 1 - trace + 2 * c, z), (x, y, z, 1 + trace))], -2)
        best = argmax(stack([a, b, c, trace], -1), axis=-1)[..., None, None]
        return cls(_unit(take_along_axis(forms, best, -2)[..., 0, :]))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Of vectors along the axes, as long as the angles."""
        v = _floats("from_rotvec", rotvec, 3)
        v = v * (math.pi / 180) if degrees else v
        angle = _norm(v)
        small = angle < SMALL
        square = rd.sum(v * v, axis=-1, keepdims=True)
        safe = where(small, 1, angle)
        scale = where(small, 0.5 - square / 48 + square * square / 3840,
                      ew.sin(safe / 2) / safe)
        return cls(concatenate([scale * v, ew.cos(angle / 2)], -1))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Of modified Rodrigues parameters, axis times tan(angle / 4)."""
        m = _floats("from_mrp", mrp, 3)
        square = rd.sum(m * m, axis=-1, keepdims=True)
        return cls(concatenate([2 * m, 1 - square], -1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Of angles about one to three axes in order: fixed ones ('zyx') or moving ones ('ZYX').

        angles has shape (..., len(seq)); a scalar does for one axis."""
        axes, moving = _axes(seq)
        a = _floats("from_euler", angles)
        a = a.reshape(1) if not shape_of(a) else a
        if shape_of(a)[-1] != len(axes):
            raise ValueError(explain(
                f"Rotation.from_euler: inconsistent size: {len(axes)} axes in {seq!r}, angles of "
                f"shape {shape_of(a)}.", fix="pass angles of shape (..., len(seq))."))
        a = a * (math.pi / 360 if degrees else 0.5)
        total: Any = None
        for i, axis in enumerate(axes):
            s, zero = ew.sin(a[..., i]), a[..., i] * 0
            one = stack([*(s if k == axis else zero for k in range(3)), ew.cos(a[..., i])],
                        -1)
            total = one if total is None else (_product(total, one) if moving else
                                               _product(one, total))
        return cls(total)

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """One rotation, or num of them, that turns nothing."""
        one = np.array([0.0, 0.0, 0.0, 1.0])
        return cls(asarray(one if num is None else np.tile(one, (num, 1)), dtype))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Rotations drawn uniformly from a key."""
        return cls.from_quat(rng.normal(random_key, (4,) if num is None else (num, 4)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Any]) -> Rotation:
        """One object of several, of shape (n, 4) each."""
        return cls(concatenate([r.quat for r in rotations]))

    # ---- as
    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """Quaternions (x, y, z, w), or (w, x, y, z); canonical: with w >= 0."""
        quat = _canonical(self.quat) if canonical else self.quat
        return concatenate([quat[..., 3:], quat[..., :3]], -1) if scalar_first else quat

    def as_matrix(self) -> Any:
        """Matrices of shape (..., 3, 3)."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = ((x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)),
                (2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)),
                (2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w))
        return stack([stack(r, -1) for r in rows], -2)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Vectors along the axes, as long as the angles (at most pi)."""
        quat = _canonical(self.quat)
        v, w = quat[..., :3], quat[..., 3:]
        angle = 2 * ew.atan2(_norm(v), w)
        small = angle < SMALL
        square = angle * angle
        safe = where(small, 1, angle)
        scale = where(small, 2 + square / 12 + 7 * square * square / 2880,
                      safe / ew.sin(safe / 2))
        return scale * v * (180 / math.pi) if degrees else scale * v

    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters, axis times tan(angle / 4)."""
        quat = _canonical(self.quat)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles about three axes (Bernardes and Viollet 2022); where two axes fall together the
        last angle is 0."""
        if len(seq) != 3:
            raise ValueError(explain(f"Expected 3 axes, got {seq}.", fix="use three letters."))
        axes, moving = _axes(seq)
        i, j, k = axes[::-1] if moving else axes
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = [self.quat[..., n] for n in range(4)]
        a, b, c, d = q[3], q[i], q[j], q[k] * sign
        if not symmetric:
            a, b, c, d = a - c, b + d, c + a, d - b
        hypot = [ew.sqrt(u * u + v * v) for u, v in ((c, d), (a, b))]
        middle = 2 * ew.atan2(*hypot)
        total, apart = ew.atan2(b, a), ew.atan2(d, c)
        flat, turned = middle <= 1e-7, abs(middle - math.pi) <= 1e-7
        locked = flat | turned
        first, third = total - apart, total + apart
        if not symmetric:
            third, middle = third * sign, middle - math.pi / 2
        if moving:
            first, third = third, first
        first = where(flat, 2 * total, where(turned, apart * (2 if moving else -2), first))
        third = where(locked, 0, third)
        angles = stack([first, middle, third], -1)
        angles = where(angles < -math.pi, angles + 2 * math.pi, angles)
        angles = where(angles > math.pi, angles - 2 * math.pi, angles)
        return angles * (180 / math.pi) if degrees else angles

    # ---- what can be done with them
    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Vectors of shape (3,) or (n, 3), turned, or turned back."""
        v = _floats("apply", vectors, 3)
        return einsum("...kj,...k->...j" if inverse else "...jk,...k->...j", self.as_matrix(), v,
                      precision="highest")

    def inv(self) -> Rotation:
        """The rotations back."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], dtype_of(self.quat)))

    def magnitude(self) -> Any:
        """The angles, from 0 to pi."""
        norm = _norm(self.quat[..., :3])[..., 0]
        return 2 * ew.atan2(norm, abs(self.quat[..., 3]))

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation with the least weighted squares of distances (Markley et al. 2007)."""
        quat = self.quat.reshape(-1, 4)
        w = ones(shape_of(quat)[0], dtype_of(quat)) if weights is None else (
            _floats("mean", weights))
        if shape_of(w) != shape_of(quat)[:1]:
            raise ValueError(explain(
                f"Expected `weights` to have number of values equal to number of rotations, got "
                f"{shape_of(w)} values and {shape_of(quat)[0]} rotations.",
                fix="pass one weight a rotation."))
        total = einsum("n,ni,nj->ij", w, quat, quat, precision="highest")
        return Rotation(nl.eigh(total)[1][:, -1])

    def __mul__(self, other: Any) -> Rotation:
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_product(*_spread(self.quat, other.quat)))

    @property
    def single(self) -> bool:
        """Whether it is one rotation, without an axis for several."""
        return ndim_of(self.quat) == 1

    def __len__(self) -> int:
        if self.single:
            raise TypeError(explain("Single rotation has no len().", fix="look at .single first."))
        return int(shape_of(self.quat)[0])

    def __getitem__(self, indexer: Any) -> Any:
        if self.single:
            raise TypeError(explain("Single rotation is not subscriptable.",
                                    fix="look at .single first."))
        return Rotation(self.quat[indexer])

    def __repr__(self) -> str:
        return f"Rotation(quat={self.quat!r})"


def _spread(p: Any, q: Any) -> list[Any]:
    return util.broadcast_all("Rotation", *util.promote_inexact("Rotation", p, q))


class Slerp(NamedTuple):
    """Interpolation of rotations along the shortest arcs; a tree of its arrays.  Made by init.

    Args:
      times: float array of shape (n,), increasing.
      timedelta: float array of shape (n - 1,).
      rotations: Rotation of n - 1: where each arc begins.
      rotvecs: float array of shape (n - 1, 3): the arcs.

    Raises:
      Nothing; init checks.

    Source: Shoemake, SIGGRAPH 1985.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.spatial.transform import Rotation, Slerp
      >>> ends = Rotation.from_euler("z", jnp.array([[0.0], [90.0]]), degrees=True)
      >>> slerp = Slerp.init(jnp.array([0.0, 1.0]), ends)
      >>> slerp(0.5).magnitude().round(3)
      Array(0.785, dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """Of times and as many rotations, at least two.

        Raises:
          ValueError: there are fewer than two, or not as many times.
        """
        if not isinstance(rotations, Rotation) or rotations.single or len(rotations) == 1:
            raise ValueError(explain("`rotations` must be a sequence of at least 2 rotations.",
                                     fix="make them of an array of shape (n, 4)."))
        t = _floats("init", times)
        if shape_of(t) != (len(rotations),):
            raise ValueError(explain(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {t.size} timestamps.",
                fix="pass one time a rotation."))
        begin, end = (Rotation(rotations.quat[s]) for s in (slice(-1), slice(1, None)))
        return cls(t, t[1:] - t[:-1], begin, (begin.inv() * end).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at times, a scalar or an array of shape (m,); the outer arcs go on."""
        t = _floats("Slerp", times)
        if ndim_of(t) > 1:
            raise ValueError(explain("`times` must be at most 1-dimensional.",
                                     fix="flatten the times."))
        last = shape_of(self.timedelta)[0] - 1
        arc = (searchsorted(self.times, t, side="right") - 1).clip(0, last)
        part = (t - self.times[arc]) / self.timedelta[arc]
        return self.rotations[arc] * Rotation.from_rotvec(self.rotvecs[arc] * part[..., None])
