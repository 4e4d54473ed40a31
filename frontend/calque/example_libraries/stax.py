"""Neural networks as pairs of functions: init(rng, input_shape) -> (output_shape, params) and
apply(params, inputs, rng=None) -> outputs.

Layers without arguments are pairs themselves (Relu), others are functions that make one (Dense).
Start reading at `Dense`, then `serial`.
"""
from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import calque.numpy as jnp
from calque import lax, nn, random
from calque.core.errors import explain
from calque.core.lists import replaced, without
from calque.core.types import Function, Shape
from calque.dispatch.staging import eval_shape
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.nn.initializers import glorot_normal, normal, ones, zeros

# as older programs call them, from here
glorot, randn = glorot_normal, normal
logsoftmax = nn.log_softmax
elu, gelu, leaky_relu, log_softmax = nn.elu, nn.gelu, nn.leaky_relu, nn.log_softmax
relu, selu, sigmoid, softmax, softplus = nn.relu, nn.selu, nn.sigmoid, nn.softmax, nn.softplus
standardize = nn.standardize
Layer = tuple[Callable[..., Any], Callable[..., Any]]


def Dense(out_dim: int, W_init: Any = glorot_normal(), b_init: Any = normal()) -> Layer:  # noqa: N802, N803
    """A layer of all outputs from all inputs: x W + b.

    Args:
      out_dim: outputs.
      W_init, b_init: initializers.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.Dense(4)
      >>> out_shape, params = init(calque.random.PRNGKey(0), (2, 3))
    """
    def init(rng: Any, input_shape: Sequence[int]) -> Any:
        k1, k2 = random.split(rng)
        w = W_init(k1, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (w, b_init(k2, (out_dim,)))

    def apply(params: Any, inputs: Any, **_: Any) -> Any:
        w, b = params
        return jnp.dot(inputs, w) + b

    return init, apply


def _general(transposed: bool, dimension_numbers: Any, out_chan: int, filter_shape: Any,
             strides: Any, padding: Any, w_init: Any, b_init: Any) -> Layer:
    lhs, rhs, out = dimension_numbers
    strides = strides or (1,) * len(filter_shape)
    w_init = w_init or glorot_normal(rhs.index("I"), rhs.index("O"))

    def run(x: Any, w: Any) -> Any:
        if transposed:
            return lax.conv_transpose(x, w, strides, padding, dimension_numbers=dimension_numbers)
        return lax.conv_general_dilated(x, w, strides, padding, (1,) * len(strides),
                                        (1,) * len(strides), dimension_numbers)

    def init(rng: Any, input_shape: Sequence[int]) -> Any:
        sizes = iter(filter_shape)
        kernel = [out_chan if c == "O" else input_shape[lhs.index("C")] if c == "I"
                  else next(sizes) for c in rhs]
        k1, k2 = random.split(rng)
        w = w_init(k1, tuple(kernel))
        bias = b_init(k2, tuple(out_chan if c == "C" else 1 for c in out))
        known = [1 if n == -1 else n for n in input_shape]  # (sizes that are left open)
        made = list(eval_shape(run, ShapeDtypeStruct(known, w.dtype), w).shape)
        made[out.index("N")] = input_shape[lhs.index("N")]
        return tuple(made), (w, bias)

    def apply(params: Any, inputs: Any, **_: Any) -> Any:
        w, b = params
        return run(inputs, w) + b

    return init, apply


def GeneralConv(dimension_numbers: Any, out_chan: int, filter_shape: Any, strides: Any = None,  # noqa: N802
                padding: Any = "VALID", W_init: Any = None, b_init: Any = normal(1e-6)) -> Layer:  # noqa: N803
    """A convolution with a bias.

    Args:
      dimension_numbers: letters of inputs, kernel and outputs, ('NHWC', 'HWIO', 'NHWC').
      out_chan: features of outputs.
      filter_shape: the kernel's sizes.
      strides: of the window.
      padding: 'SAME' or 'VALID'.
      W_init, b_init: initializers.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.GeneralConv(('NHWC', 'HWIO', 'NHWC'), 3, (2, 2))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (1, 5, 5, 2))
    """
    return _general(False, dimension_numbers, out_chan, filter_shape, strides, padding, W_init,
                    b_init)


def GeneralConvTranspose(dimension_numbers: Any, out_chan: int, filter_shape: Any,  # noqa: N802
                         strides: Any = None, padding: Any = "VALID", W_init: Any = None,  # noqa: N803
                         b_init: Any = normal(1e-6)) -> Layer:
    """The transpose of a convolution, with a bias.

    Args:
      dimension_numbers: letters of inputs, kernel and outputs, ('NHWC', 'HWIO', 'NHWC').
      out_chan: features of outputs.
      filter_shape: the kernel's sizes.
      strides: of the window.
      padding: 'SAME' or 'VALID'.
      W_init, b_init: initializers.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.GeneralConvTranspose(('NHWC', 'HWIO', 'NHWC'), 3, (2, 2))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (1, 5, 5, 2))
    """
    return _general(True, dimension_numbers, out_chan, filter_shape, strides, padding, W_init,
                    b_init)


def Conv(out_chan: int, filter_shape: Any, strides: Any = None, padding: Any = "VALID",  # noqa: N802
         W_init: Any = None, b_init: Any = normal(1e-6)) -> Layer:  # noqa: N803
    """A convolution of images whose features come last.

    Args:
      out_chan: features of outputs.
      filter_shape: the kernel's sizes.
      strides: of the window.
      padding: 'SAME' or 'VALID'.
      W_init, b_init: initializers.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.Conv(3, (2, 2))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (1, 5, 5, 2))
    """
    return GeneralConv(("NHWC", "HWIO", "NHWC"), out_chan, filter_shape, strides, padding, W_init,
                       b_init)


def ConvTranspose(out_chan: int, filter_shape: Any, strides: Any = None, padding: Any = "VALID",  # noqa: N802
                  W_init: Any = None, b_init: Any = normal(1e-6)) -> Layer:  # noqa: N803
    """The transpose of Conv.

    Args:
      out_chan: features of outputs.
      filter_shape: the kernel's sizes.
      strides: of the window.
      padding: 'SAME' or 'VALID'.
      W_init, b_init: initializers.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.ConvTranspose(3, (2, 2))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (1, 5, 5, 2))
    """
    return GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), out_chan, filter_shape, strides, padding,
                                W_init, b_init)


def Conv1DTranspose(out_chan: int, filter_shape: Any, strides: Any = None, padding: Any = "VALID",  # noqa: N802
                    W_init: Any = None, b_init: Any = normal(1e-6)) -> Layer:  # noqa: N803
    """The transpose of a convolution along one axis.

    Args:
      out_chan: features of outputs.
      filter_shape: the kernel's sizes.
      strides: of the window.
      padding: 'SAME' or 'VALID'.
      W_init, b_init: initializers.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.Conv1DTranspose(3, (2,))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (1, 5, 2))
    """
    return GeneralConvTranspose(("NHC", "HIO", "NHC"), out_chan, filter_shape, strides, padding,
                                W_init, b_init)


def BatchNorm(axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True,  # noqa: N802
              scale: bool = True, beta_init: Any = zeros, gamma_init: Any = ones) -> Layer:
    """A batch brought to mean 0 and variance 1, then scaled and moved.

    Args:
      axis: over which mean and variance are taken.
      epsilon: added to the variance.
      center, scale: whether there are parameters for these.
      beta_init, gamma_init: their initializers.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.BatchNorm(0)
      >>> out_shape, params = init(calque.random.PRNGKey(0), (2, 3))
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Sequence[int]) -> Any:
        shape = without(input_shape, axes)
        k1, k2 = random.split(rng)
        return tuple(input_shape), (beta_init(k1, shape) if center else (),
                                    gamma_init(k2, shape) if scale else ())

    def apply(params: Any, x: Any, **_: Any) -> Any:
        beta, gamma = params
        wide = tuple(None if i in axes else slice(None) for i in range(jnp.ndim(x)))
        z = nn.standardize(x, axes, epsilon=epsilon)
        if scale:
            z = gamma[wide] * z
        return z + beta[wide] if center else z

    return init, apply


# ---- functions of elements
def elementwise(fun: Function, **fun_kwargs: Any) -> Layer:
    """A function applied to all inputs, without parameters.

    Args:
      fun: function of an array.
      **fun_kwargs: passed on to it.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.elementwise(calque.numpy.sin)
      >>> out_shape, params = init(calque.random.PRNGKey(0), (2, 3))
    """
    return _without_parameters(lambda shape: shape, lambda x: fun(x, **fun_kwargs))


def _without_parameters(shape_of: Callable[[Any], Any], fun: Callable[[Any], Any]) -> Layer:
    def init(rng: Any, input_shape: Any) -> Any:
        return shape_of(input_shape), ()

    def apply(params: Any, inputs: Any, **_: Any) -> Any:
        return fun(inputs)

    return init, apply


Tanh = elementwise(jnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)


# ---- windows
def _pooling(fun: Any, start: Any, window: Any, strides: Any, padding: Any, spec: Any,
             mean: bool = False) -> Layer:
    strides = tuple(strides or (1,) * len(window))
    spec = spec or ("NHWC" if len(window) == 2 else "N" + "D" * len(window) + "C")

    def whole(sizes: Sequence[int]) -> Shape:
        given = iter(sizes)
        return tuple(1 if c in "NC" else next(given) for c in spec)

    dims, steps = whole(window), whole(strides)

    def shape(input_shape: Sequence[int]) -> Shape:
        pads = lax.padtype_to_pads(input_shape, dims, steps, padding)
        return tuple((n + a + b - d) // s + 1
                     for n, (a, b), d, s in zip(input_shape, pads, dims, steps))

    def pool(inputs: Any) -> Any:
        out = lax.reduce_window(inputs, start, fun, dims, steps, padding)
        if not mean:
            return out
        if padding == "VALID":
            return out / math.prod(window)
        one = jnp.ones([1 if c in "NC" else n for c, n in zip(spec, inputs.shape)], inputs.dtype)
        return out / lax.reduce_window(one, 0.0, lax.add, dims, steps, padding)

    return _without_parameters(shape, pool)


def MaxPool(window_shape: Any, strides: Any = None, padding: Any = "VALID",  # noqa: N802
            spec: Any = None) -> Layer:
    """The largest input of each window.

    Args:
      window_shape: sizes of the window.
      strides: between windows.
      padding: 'SAME' or 'VALID'.
      spec: letters of the axes, 'NHWC'.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.MaxPool((2, 2))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (1, 5, 5, 2))
    """
    return _pooling(lax.max, -jnp.inf, window_shape, strides, padding, spec)


def SumPool(window_shape: Any, strides: Any = None, padding: Any = "VALID",  # noqa: N802
            spec: Any = None) -> Layer:
    """The sum of each window.

    Args:
      window_shape: sizes of the window.
      strides: between windows.
      padding: 'SAME' or 'VALID'.
      spec: letters of the axes, 'NHWC'.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.SumPool((2, 2))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (1, 5, 5, 2))
    """
    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec)


def AvgPool(window_shape: Any, strides: Any = None, padding: Any = "VALID",  # noqa: N802
            spec: Any = None) -> Layer:
    """The mean of each window.

    Args:
      window_shape: sizes of the window.
      strides: between windows.
      padding: 'SAME' or 'VALID'.
      spec: letters of the axes, 'NHWC'.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.AvgPool((2, 2))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (1, 5, 5, 2))
    """
    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec, True)


# ---- shapes
Flatten = _without_parameters(lambda shape: (shape[0], math.prod(shape[1:])),
                              lambda x: jnp.reshape(x, (x.shape[0], -1)))
Identity = _without_parameters(lambda shape: shape, lambda x: x)
FanInSum = _without_parameters(lambda shapes: shapes[0],
                               lambda xs: functools.reduce(operator.add, xs))


def FanOut(num: int) -> Layer:  # noqa: N802
    """The same inputs several times, for parallel layers.

    Args:
      num: how often.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.FanOut(2)
      >>> out_shape, params = init(calque.random.PRNGKey(0), (2, 3))
    """
    return _without_parameters(lambda shape: [shape] * num, lambda x: [x] * num)


def FanInConcat(axis: int = -1) -> Layer:  # noqa: N802
    """Several inputs joined along an axis.

    Args:
      axis: of the joint.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.FanInConcat()
      >>> out_shape, params = init(calque.random.PRNGKey(0), [(2, 3)] * 2)
    """
    def joined(shapes: Sequence[Any]) -> tuple[int, ...]:
        at = axis % len(shapes[0])
        return replaced(shapes[0], at, sum(shape[at] for shape in shapes))

    return _without_parameters(joined, lambda xs: jnp.concatenate(xs, axis))


def Dropout(rate: float, mode: str = "train") -> Layer:  # noqa: N802
    """Inputs set to 0 at random, the others scaled up, while training.

    Args:
      rate: of those that are kept.
      mode: 'train', or anything else for the identity.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.Dropout(0.9)
      >>> out_shape, params = init(calque.random.PRNGKey(0), (2, 3))
    """
    def init(rng: Any, input_shape: Any) -> Any:
        return input_shape, ()

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(explain(
                "Dropout layer requires apply_fun to be called with a PRNG key argument. That is, "
                "instead of `apply_fun(params, inputs)`, call it like `apply_fun(params, inputs, "
                "rng)` where `rng` is a PRNG key (e.g. from `jax.random.key`)."))
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return init, apply


# ---- composition
def serial(*layers: Layer) -> Layer:
    """Layers one after another.

    Args:
      *layers: pairs (init, apply).

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.serial(stax.Dense(4), stax.Relu)
      >>> out_shape, params = init(calque.random.PRNGKey(0), (2, 3))
    """
    def init(rng: Any, input_shape: Any) -> Any:
        params = []
        for one, _ in layers:
            rng, own = random.split(rng)
            input_shape, made = one(own, input_shape)
            params.append(made)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        for (_, one), p, rng in zip(layers, params, _keys(kwargs.pop("rng", None), layers)):
            inputs = one(p, inputs, rng=rng, **kwargs)
        return inputs

    return init, apply


def _keys(rng: Any, layers: Sequence[Any]) -> Any:
    return [None] * len(layers) if rng is None else random.split(rng, len(layers))


def parallel(*layers: Layer) -> Layer:
    """Layers side by side, each with an input of its own (see FanOut).

    Args:
      *layers: pairs (init, apply).

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.parallel(stax.Dense(4), stax.Dense(3))
      >>> out_shape, params = init(calque.random.PRNGKey(0), [(2, 3)] * 2)
    """
    def init(rng: Any, input_shape: Any) -> Any:
        made = [one(key, shape) for (one, _), key, shape
                in zip(layers, random.split(rng, len(layers)), input_shape)]
        shapes, params = zip(*made)
        return list(shapes), params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rngs = _keys(kwargs.pop("rng", None), layers)
        return [one(p, x, rng=r, **kwargs)
                for (_, one), p, x, r in zip(layers, params, inputs, rngs)]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that is made when the shape of its inputs is known.

    Args:
      make_layer: function of the shape that returns a layer.

    Returns:
      (init, apply).

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> from calque.example_libraries import stax
      >>> init, apply = stax.shape_dependent(lambda shape: stax.Dense(shape[-1]))
      >>> out_shape, params = init(calque.random.PRNGKey(0), (2, 3))
    """
    def init(rng: Any, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init, apply


__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu",
    "Exp", "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv",
    "GeneralConvTranspose", "Identity", "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu",
    "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "parallel", "serial",
    "shape_dependent"]


def __dir__() -> list[str]:
    return __all__
