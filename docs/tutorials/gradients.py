"""Gradients, and the smallest training loop.

Lines that begin with #> are what the statement above them prints, up to rounding of the last digit;
tests/docs/test_tutorials.py runs this file and compares.
"""
import numpy as np

import calque
import calque.numpy as jnp

x = jnp.arange(10)
print(x)
#> [0 1 2 3 4 5 6 7 8 9]
print(repr(x))
#> Array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], dtype=int32)


# ---- grad turns a function into its gradient
def sum_of_squares(x):
    return jnp.sum(x**2)


x = jnp.asarray([1.0, 2.0, 3.0, 4.0])
print(calque.grad(sum_of_squares)(x))
#> [2. 4. 6. 8.]


def sum_squared_error(x, y):
    return jnp.sum((x - y)**2)


y = jnp.asarray([1.1, 2.1, 3.1, 4.1])
print(calque.grad(sum_squared_error)(x, y))  # by the first argument
#> [-0.20000005 -0.19999981 -0.19999981 -0.19999981]
by_x, by_y = calque.grad(sum_squared_error, argnums=(0, 1))(x, y)
print(by_y)
#> [0.20000005 0.19999981 0.19999981 0.19999981]
value, gradient = calque.value_and_grad(sum_squared_error)(x, y)
print(value, gradient)
#> 0.03999995 [-0.20000005 -0.19999981 -0.19999981 -0.19999981]


# ---- other results go beside the value
def with_residuals(x, y):
    return sum_squared_error(x, y), x - y


try:
    calque.grad(with_residuals)(x, y)
except TypeError as error:
    print(str(error).partition(" (")[0])
#> Gradient only defined for scalar-output functions. Output was
gradient, residuals = calque.grad(with_residuals, has_aux=True)(x, y)
print(residuals)
#> [-0.10000002 -0.0999999  -0.0999999  -0.0999999 ]

# ---- functions return new arrays and leave their arguments alone
x = jnp.array([1, 2, 3])
print(x.at[0].set(123), x)
#> [123   2   3] [1 2 3]


# ---- training: a model, a loss, an update
def model(theta, x):
    w, b = theta
    return w * x + b


def loss(theta, x, y):
    return jnp.mean((model(theta, x) - y)**2)


@calque.jit
def update(theta, x, y, rate=0.1):
    return theta - rate * calque.grad(loss)(theta, x, y)


rng = np.random.default_rng(0)
xs = rng.normal(size=100)
ys = xs * 3 - 1 + rng.normal(scale=0.01, size=100)
theta = jnp.array([1.0, 1.0])
for _ in range(1000):
    theta = update(theta, xs, ys)
w, b = theta
print(f"w: {w:<.2f}, b: {b:<.2f}")
#> w: 3.00, b: -1.00
