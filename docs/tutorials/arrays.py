"""Arrays, random numbers, jit, gradients, vectorized code: calque in place of NumPy.

Lines that begin with #> are what the statement above them prints, up to rounding of the last digit;
tests/docs/test_tutorials.py runs this file and compares.
"""
import numpy as np

import calque
import calque.numpy as jnp
from calque import random

# ---- like NumPy
a = jnp.asarray((1.0, 3.2, -1.5))
print(a)
#> [ 1.   3.2 -1.5]
print(jnp.sum(a), jnp.mean(a), jnp.dot(a, a))
#> 2.6999998 0.9 13.490001
print(repr(jnp.sum(a)))  # also a scalar is an array, with a dtype
#> Array(2.6999998, dtype=float32)
print(isinstance(a, calque.Array), isinstance(a, np.ndarray))
#> True False
identity = jnp.identity(2)
print(jnp.ones((2, 2)) @ identity)
#> [[1. 1.]
#>  [1. 1.]]
print(jnp.linalg.inv(identity))
#> [[1. 0.]
#>  [0. 1.]]
print(jnp.linalg.eigh(identity).eigenvalues)
#> [1. 1.]

# ---- unlike NumPy: 32 bits unless 64 are asked for, and no change in place
calque.config.update("jax_enable_x64", True)
print(repr(jnp.ones(3)))
#> Array([1., 1., 1.], dtype=float64)
a = jnp.linspace(0, 1, 3)
try:
    a[0] = 1
except TypeError as error:
    print(str(error).partition(".")[0])
#> JAX arrays are immutable and do not support in-place item assignment
print(a.at[0].set(1), a)
#> [1.  0.5 1. ] [0.  0.5 1. ]
b = jnp.array((2, 1))
print(b.sort(), b)
#> [1 2] [2 1]

# ---- random numbers come from a key, and the same key gives the same numbers
key = random.PRNGKey(1)
print(key)
#> [0 1]
print(random.normal(key, (3, 3)))
#> [[-1.35247421 -0.2712502  -0.02920518]
#>  [ 0.34706456  0.5464053  -1.52325812]
#>  [ 0.41677264 -0.59710138 -0.5678208 ]]
key, subkey = random.split(key)  # fresh keys for fresh numbers
print(random.normal(key, (3, 3)))
#> [[ 1.85374374 -0.37683949 -0.61276867]
#>  [-1.91829718  0.27219409  0.54922246]
#>  [ 0.40451442 -0.58726839 -0.63967753]]
print(random.normal(subkey, (3, 3)))
#> [[-0.4300635   0.22778552  0.57241269]
#>  [-0.15969178  0.46719192  0.21165091]
#>  [ 0.84118631  1.18671326 -0.16607783]]


def matrices(key, n, k):
    for _ in range(k):
        key, subkey = random.split(key)
        yield random.uniform(subkey, (n, n))


for m in matrices(key, 2, 2):
    print(m)
#> [[0.97440813 0.3838544 ]
#>  [0.9790686  0.99981046]]
#> [[0.3473302  0.17157842]
#>  [0.89346686 0.01403153]]
print(random.normal(key, (5,)))
#> [-0.64377279  0.76961857 -0.29809604  0.47858776 -2.00591299]


# ---- jit: one program instead of one per operation
def f(x):
    return jnp.sum(3*x + jnp.sin(x) + jnp.cos(x**2) - jnp.cos(2*x) - x**2 * 0.4 * x**1.5)


x = jnp.ones(50_000)
print(f(x), calque.jit(f)(x))
#> 219896.006 219896.006

# ---- a jitted function should be pure: what it reads from outside is part of the program
offset = 1
add = calque.jit(lambda x: offset + x)
print(add(jnp.ones(2)))
#> [2. 2.]
offset = 42
print(add(jnp.ones(2)))  # the program of before
#> [2. 2.]
print(add(jnp.ones(3)))  # a new shape, a new program
#> [43. 43. 43.]

# ---- gradients
slope = calque.grad(lambda x: x**2 / 2)
print(repr(slope(10.0)))
#> Array(10., dtype=float64, weak_type=True)
grid = jnp.linspace(-4, 4, 9)
print(jnp.stack([slope(v) for v in grid]))
#> [-4. -3. -2. -1.  0.  1.  2.  3.  4.]


# ---- a function on a grid: meshes, or vmap without the memory of meshes
@calque.jit
def surface(x, y):
    return jnp.cos(x**2 + y**2) / (1 + x**2 + y**2)


x = jnp.linspace(-2, 2, 600)
print(surface(x, x).shape)  # not a grid
#> (600,)
x_mesh, y_mesh = jnp.meshgrid(x, x)
z_mesh = surface(x_mesh, y_mesh)
z_vmap = calque.vmap(calque.vmap(surface, in_axes=(None, 0)), in_axes=(0, None))(x, x)
print(z_vmap.shape, jnp.allclose(z_vmap, z_mesh))
#> (600, 600) True
print(x_mesh.nbytes + y_mesh.nbytes, x.nbytes)
#> 5760000 4800

# The exercise, a call option by Monte Carlo with 10 million paths, is examples/option_price.py.
calque.config.update("jax_enable_x64", False)
