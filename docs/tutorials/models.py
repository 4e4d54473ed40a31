"""Keys, jit and its limits, regressions by gradient descent, trees of parameters, a network.

Lines that begin with #> are what the statement above them prints, up to rounding of the last digit;
tests/docs/test_tutorials.py runs this file and compares.
"""
from functools import partial

import numpy as np

import calque
import calque.numpy as jnp
from calque import random

# ---- arrays mix with NumPy's
x = jnp.linspace(0, 10, 101)
print(x.dtype, np.linspace(0, 10, 101).dtype)
#> float32 float64
mixed = 2 * np.sin(np.linspace(0, 10, 101)) * jnp.cos(x)
print(mixed[:5].round(5), mixed.dtype)
#> [0.      0.19867 0.38942 0.56464 0.71736] float32

# ---- keys
key = random.PRNGKey(1234)
print(key)
#> [   0 1234]
print(random.normal(key), random.normal(key))
#> -0.5402 -0.5402
print(random.normal(key, shape=(3,)))
#> [-0.01978 -0.0731  -1.07825]
print(random.split(key))
#> [[2113592192 1902136347]
#>  [ 603280156  445306386]]
new, *others = random.split(key, num=3)
print(others)
#> [Array([1047329699,  140093922], dtype=uint32), Array([2907975018, 3484112841], dtype=uint32)]


# ---- jit needs functions of calque's
def selu(x, alpha=1.67, scale=1.05, xp=jnp):
    return scale * xp.where(x > 0, x, alpha * xp.exp(x) - alpha)


try:
    calque.jit(partial(selu, xp=np))(x)
except calque.errors.TracerArrayConversionError as error:
    print(type(error).__name__)
#> TracerArrayConversionError
line = np.linspace(-2, 2, 5, dtype=np.float32)
print(np.allclose(calque.jit(selu)(line), selu(line, xp=np)))
#> True

# ---- gradients of gradients, and on arrays
print(calque.grad(lambda x: x**2)(3.0), calque.grad(calque.grad(lambda x: x**2))(3.0))
#> 6.0 2.0
print(calque.grad(lambda x: jnp.exp(-x))(1.0))
#> -0.36788
h = lambda x: jnp.maximum(0, x)  # noqa: E731
print(calque.grad(h)(-2.0), calque.grad(h)(2.0))
#> 0.0 1.0
try:
    calque.grad(h)(line)
except TypeError as error:
    print(str(error).splitlines()[0])
#> Gradient only defined for scalar-output functions. Output had shape: (5,).
print(calque.vmap(calque.grad(h))(line))
#> [0.  0.  0.5 1.  1. ]

# ---- regression: the losses differ, the loop is one (examples/regression.py has more of it)
rng = np.random.default_rng(0)
X = jnp.asarray(rng.normal(size=(500, 8)), jnp.float32)
true = jnp.array([1.0, 2.0, 0.0, -3.0, 0.5, 0.1, -0.3, 1.0])
y = X @ true


def squares(b, strength=0.0):
    return jnp.mean((X @ b - y)**2)


def ridge(b, strength=0.0):
    return squares(b) + strength * jnp.sum(b**2)


def lasso(b, strength=0.0):
    return squares(b) + strength * jnp.sum(jnp.abs(b))


b = random.normal(key, (8,))
difference = calque.grad(lasso)(b, strength=1.0) - calque.grad(squares)(b)
print(jnp.allclose(difference, jnp.sign(b), atol=1e-5))
#> True


def fit(b, loss, strength=0.0, n=250, rate=0.01):
    losses = []
    for _ in range(n):
        value, gradient = calque.value_and_grad(loss)(b, strength)
        losses.append(value.item())
        b -= rate * gradient
    return b, losses


fitted, losses = fit(b, squares, n=20)
print(losses[-1] < losses[0])
#> True
try:
    calque.jit(fit, static_argnames=["loss", "strength", "n"])(b, squares)  # .item() of a tracer
except calque.errors.ConcretizationTypeError as error:
    print(type(error).__name__)
#> ConcretizationTypeError


@partial(calque.jit, static_argnames=["loss", "n"])
def fit_jitted(b, loss, strength=0.0, n=250, rate=0.01):
    return calque.lax.fori_loop(
        0, n, lambda _, b: b - rate * calque.grad(loss)(b, strength), b)


print(jnp.allclose(fit_jitted(b, squares, n=20), fitted, atol=1e-4))
#> True
print(jnp.abs(fit_jitted(b, squares, n=2000) - true).max() < 1e-3)
#> True

# ---- trees: containers of arrays
rows = [[1, 2, 3], [1, 2], [1, 2, 3, 4]]
print(calque.tree.map(lambda x: x**2, rows))
#> [[1, 4, 9], [1, 4], [1, 4, 9, 16]]
print(calque.tree.map(lambda x, y: x + y, rows, rows))
#> [[2, 4, 6], [2, 4], [2, 4, 6, 8]]
print(calque.tree.map(lambda x: type(x).__name__, {"b": (2, 3.0), "a": [1, "s"]}))
#> {'a': ['int', 'str'], 'b': ('int', 'float')}


# ---- a network: its parameters are a tree, and so are its gradients
def init(widths, key):
    params = []
    for n_in, n_out in zip(widths[:-1], widths[1:]):
        key, sub = random.split(key)
        params.append(dict(W=random.normal(sub, (n_in, n_out)) * np.sqrt(2 / n_in),
                           b=jnp.ones(n_out)))
    return params


class Network:
    def forward(self, params, x):
        *hidden, last = params
        for layer in hidden:
            x = calque.nn.relu(x @ layer["W"] + layer["b"])
        return x @ last["W"] + last["b"]

    def loss(self, params, x, y):
        return jnp.mean((self.forward(params, x) - y)**2)

    @partial(calque.jit, static_argnames=["self", "rate"])
    def step(self, params, x, y, rate=0.0001):
        grads = calque.grad(self.loss)(params, x, y)
        return calque.tree.map(lambda p, g: p - rate * g, params, grads)


params = init([1, 128, 128, 1], random.PRNGKey(1234))
print(calque.tree.map(lambda x: x.shape, params))
#> [{'W': (1, 128), 'b': (128,)}, {'W': (128, 128), 'b': (128,)}, {'W': (128, 1), 'b': (1,)}]
x = random.uniform(random.PRNGKey(12345), (128, 1), minval=-1.0, maxval=1.0)
y = x**2
network = Network()
print(network.loss(params, x, y))
#> 5.64001
for _ in range(1000):
    params = network.step(params, x, y)
print(network.loss(params, x, y))
#> 0.01788
