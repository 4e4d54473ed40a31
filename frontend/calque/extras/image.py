"""Images of another size (`jax.image`): each axis is resampled by a small matrix of weights.

Sample i of an axis lies at (i + 0.5 - translation) / scale - 0.5 of the input's; its value is the
sum of the inputs near it, weighted by a kernel, the weights made to add up to 1.  Kernels: linear,
Keys' cubic (Keys 1981, "Cubic convolution interpolation for digital image processing") and
Lanczos' (Duchon 1979, "Lanczos filtering in one and two dimensions").
Start reading at `scale_and_translate`.
"""
from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.dims import is_static, number
from calque.core.errors import explain
from calque.core.types import Dtype, Shape
from calque.dispatch.replay import planned
from calque.lax import Precision
from calque.lax.operands import as_sizes


class ResizeMethod(enum.Enum):
    """How samples between pixels are found.

    Example:
      >>> from calque import image
      >>> image.ResizeMethod.from_string("bilinear")
      <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name; ValueError where there is none."""
        if s not in _NAMES:
            raise ValueError(explain(f"image.resize has no method {s!r}.",
                                     fix=f"use one of {', '.join(sorted(_NAMES))}."))
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST, "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5, "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH, "area": ResizeMethod.AREA,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC)}


def _linear(x: Any) -> Any:
    return jnp.maximum(0, 1 - x)


def _cubic(a: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x >= 2, 0, jnp.where(x >= 1, far, near))
    return kernel


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        return jnp.where(x >= radius, 0, jnp.sinc(x) * jnp.sinc(x / radius))
    return kernel


_KERNELS = {ResizeMethod.LINEAR: _linear, ResizeMethod.CUBIC: _cubic(-0.5),
            ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75), ResizeMethod.LANCZOS3: _lanczos(3.0),
            ResizeMethod.LANCZOS5: _lanczos(5.0)}


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return ResizeMethod.from_string(method) if isinstance(method, str) else ResizeMethod(method)


def _checked_shape(name: str, image: Any, shape: Sequence[int]) -> Shape:
    wanted = as_sizes(name, shape)
    given = shape_of(image)
    if len(wanted) != len(given):
        raise ValueError(explain(f"{name}: shape {wanted} for an image of shape {given}.",
                                 fix="give a size for each axis, batch and channels too."))
    for n, old in zip(wanted, given):
        if n < 0 or (old == 0 and n != 0):
            raise ValueError(explain(f"{name}: {given} cannot become {wanted}.",
                                     fix="sizes are not negative, and 0 stays 0."))
    return wanted


@planned
def scale_and_translate(image: Any, shape: Sequence[int], spatial_dims: Sequence[int], scale: Any,
                        translation: Any, method: str | ResizeMethod, antialias: bool = True,
                        precision: Any = Precision.HIGHEST) -> Any:
    """An image scaled and moved into another shape; what lies outside of it is 0.

    Args:
      image: array of any rank.
      shape: the result's, a size for each axis.
      spatial_dims: the axes that are resampled.
      scale: array of a number for each of them: output pixels per input pixel.  May be traced.
      translation: array of a number for each: output pixels by which the image moves.  Weights are
        computed in the wider dtype of both, of 32 bits at least.
      method: "linear" ("bilinear", "trilinear", "triangle"), "cubic" ("bicubic", "tricubic"),
        "cubic-pytorch" ("bicubic-pytorch"), "lanczos3", "lanczos5", "area" or a ResizeMethod.
      antialias: whether a kernel is stretched where the image shrinks.
      precision: of the products.

    Returns:
      Array of `shape`; of integers and bools in the default float dtype.

    Raises:
      ValueError: shape has another rank; scale, translation and spatial_dims differ in length; an
        axis is outside or named twice; method is unknown, or "nearest".

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import image
      >>> image.scale_and_translate(jnp.array([1.0, 2.0, 3.0]), (4,), (0,), jnp.array([1.0]),
      ...                           jnp.array([1.0]), "linear")
      Array([0., 1., 2., 3.], dtype=float32)
    """
    wanted = _checked_shape("scale_and_translate", image, shape)
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        raise ValueError(explain("scale_and_translate has no method 'nearest'.",
                                 fix="use 'linear', or image.resize."))
    rank = len(wanted)
    dims = [operator.index(d) for d in spatial_dims]
    if any(not -rank <= d < rank for d in dims) or len({d % rank for d in dims}) != len(dims):
        raise ValueError(explain(f"scale_and_translate: spatial_dims {tuple(dims)} of an image of "
                                 f"rank {rank}.", fix="name each axis once."))
    scale, translation = jnp.asarray(scale), jnp.asarray(translation)
    if scale.shape != (len(dims),) or translation.shape != (len(dims),):
        raise ValueError(explain(
            f"scale_and_translate: scale of shape {scale.shape} and translation of shape "
            f"{translation.shape} for {len(dims)} spatial_dims.",
            fix="give one number for each axis in spatial_dims."))
    still = [d for d in range(rank) if d not in {d % rank for d in dims}]
    if any(wanted[d] != shape_of(image)[d] for d in still):
        raise ValueError(explain(
            f"scale_and_translate: shape {wanted} differs from the image's "
            f"{shape_of(image)} in an axis that is not in spatial_dims {tuple(dims)}.",
            fix="name the axis in spatial_dims."))
    kind = _kind(scale, translation)  # not the image's, as in JAX
    return _resampled(image, wanted, [d % rank for d in dims], list(scale.astype(kind)),
                      list(translation.astype(kind)), chosen, antialias, precision)


@planned
def resize(image: Any, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
           precision: Any = Precision.HIGHEST) -> Any:
    """An image in another size: axes whose sizes differ are resampled.

    Args:
      image: array of any rank.
      shape: the result's, a size for each axis.
      method: "nearest", "linear" ("bilinear", "trilinear", "triangle"), "cubic" ("bicubic",
        "tricubic"), "cubic-pytorch" ("bicubic-pytorch"), "lanczos3", "lanczos5", "area" or a
        ResizeMethod.
      antialias: whether a kernel is stretched where the image shrinks.
      precision: of the products.

    Returns:
      Array of `shape`; with "nearest" in the image's dtype, else of integers and bools in the
      default float dtype.

    Raises:
      ValueError: shape has another rank, a size is negative, method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import image
      >>> image.resize(jnp.array([0.0, 1.0, 2.0, 3.0]), (2,), "linear", antialias=False)
      Array([0.5, 2.5], dtype=float32)
    """
    wanted = _checked_shape("resize", image, shape)
    chosen = _method(method)
    given = shape_of(image)
    dims = [d for d in range(len(given)) if given[d] != wanted[d]]
    if chosen is ResizeMethod.NEAREST:
        out = jnp.asarray(image)
        for d in dims:
            if wanted[d]:
                out = jnp.take(out, _nearest(given[d], wanted[d]), axis=d, mode="clip")
            else:
                out = jnp.take(out, np.zeros(0, np.int32), axis=d)
        return out
    kind = _kind(image)
    scales = [jnp.asarray(wanted[d] / given[d] if given[d] else 1.0, kind) for d in dims]
    still = [jnp.zeros((), kind)] * len(dims)
    return _resampled(image, wanted, dims, scales, still, chosen, antialias, precision)


def _nearest(old: Any, new: Any) -> Any:
    """The pixel that each new one shows."""
    if is_static((old, new)):
        rows = np.floor((np.arange(new) + 0.5) * (old / new))
        return np.minimum(rows, old - 1).astype(np.int32)
    step = number(old, np.float32) / number(new, np.float32)
    return jnp.floor((jnp.arange(new) + 0.5) * step).astype(np.int32)


def _kind(*arrays: Any) -> Dtype:
    """The dtype of weights: of half precision they would move pixels."""
    wide = any(dtype_of(x) in (np.float64, np.complex128) for x in arrays)
    return np.dtype(np.float64 if wide else np.float32)


def _resampled(image: Any, shape: Sequence[int], dims: Sequence[int], scale: Sequence[Any],
               translation: Sequence[Any], method: ResizeMethod, antialias: bool,
               precision: Any) -> Any:
    out = jnp.asarray(image)
    if not dtypes.is_inexact(out.dtype):
        out = out.astype(jnp.result_type(float))
    dtype = out.dtype
    wide = out.astype(jnp.promote_types(dtype, np.float32)) if dims else out  # of the sums
    for d, s, t in zip(dims, scale, translation):
        weights = _weights(wide.shape[d], shape[d], s, t, method, antialias)
        wide = jnp.moveaxis(jnp.tensordot(wide, weights.astype(wide.dtype), ((d,), (0,)),
                                          precision=precision), -1, d)
    return wide.astype(dtype)


def _weights(old: int, new: int, scale: Any, translation: Any, method: ResizeMethod,
             antialias: bool) -> Any:
    """(old, new): how much of each input is in each output."""
    # PyTorch repeats the outer pixels where it does not stretch: weights beyond them are theirs
    beyond = 2 if method is ResizeMethod.CUBIC_PYTORCH and not antialias else 0
    pixels = jnp.arange(-beyond, old + beyond, dtype=scale.dtype)[:, None]
    step = 1 / scale
    steps = jnp.arange(new, dtype=scale.dtype)
    at = (steps + 0.5) * step - translation * step - 0.5
    if method is ResizeMethod.AREA:  # the overlap of both pixels
        edges = steps * step - translation * step
        weights = jnp.maximum(0, jnp.minimum(edges + step, pixels + 1) - jnp.maximum(edges, pixels))
    else:
        if antialias and method is ResizeMethod.CUBIC_PYTORCH:
            method = ResizeMethod.CUBIC  # as PyTorch has it
        # (reciprocals of what is broadcast, as XLA divides: the last bit of a weight is JAX's)
        narrow = 1 / jnp.maximum(step, 1) if antialias else 1
        weights = _KERNELS[method](jnp.abs(at - pixels) * narrow)
        if beyond:
            first, last = weights[:beyond].sum(0), weights[-beyond:].sum(0)
            weights = weights[beyond:-beyond].at[0].add(first).at[-1].add(last)
    total = weights.sum(0)
    known = jnp.abs(total) > 1000 * float(jnp.finfo(scale.dtype).eps)
    weights = jnp.where(known, weights * (1 / jnp.where(known, total, 1)), 0)
    return jnp.where((at >= -0.5) & (at <= old - 0.5), weights, 0)


__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


def __dir__() -> list[str]:
    return __all__
