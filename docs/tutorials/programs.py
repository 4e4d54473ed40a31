"""What a program is: differences from NumPy, keys, static and traced values, purity, composition.

Lines that begin with #> are what the statement above them prints, up to rounding of the last digit;
tests/docs/test_tutorials.py runs this file and compares.
"""
import numpy as np

import calque
import calque.numpy as jnp
from calque import grad, jit, lax, random

# ---- the same names as NumPy's
print(jnp.array([(1, 2, 3), (4, 5, 6)]))
#> [[1 2 3]
#>  [4 5 6]]
print(jnp.arange(5), jnp.zeros(2), jnp.linspace(0, 2, 9))
#> [0 1 2 3 4] [0. 0.] [0.   0.25 0.5  0.75 1.   1.25 1.5  1.75 2.  ]
print(repr(np.zeros((2, 3)).dtype), repr(jnp.zeros((2, 3)).dtype))
#> dtype('float64') dtype('float32')
a = jnp.arange(5)
print(a.at[0].set(9))
#> [9 1 2 3 4]
try:
    jnp.sum([1.0, 2.0])  # a list would be many small copies
except TypeError as error:
    print(str(error).splitlines()[0])
#> sum requires ndarray or scalar arguments, got <class 'list'> at position 0.
print(a[10])  # outside: the nearest element
#> 4

# ---- keys
key = random.PRNGKey(18)
print(key)
#> [ 0 18]
first, second = random.split(key)
print(first, second)
#> [4197003906 1654466292] [1685972163 1654824463]


# ---- jit sees types, not values
def power(x):
    if x < 0.0:
        return x ** 2.0
    return x ** 3.0


try:
    jit(power)(1.0)
except calque.errors.TracerBoolConversionError as error:
    print(str(error).splitlines()[0])
#> Attempted boolean conversion of traced array with shape bool[].
by_position = jit(power, static_argnums=(0,))
print(by_position(2.0), by_position(-2.0))
#> 8.0 4.0
by_name = jit(power, static_argnames="x")
print(by_name(2.0), by_name(-2.0))
#> 8.0 4.0
print(lax.cond(False, lambda x: x ** 2.0, lambda x: x ** 3.0, jnp.array([2.0])))
#> [8.]
print(lax.cond(True, lambda x: x ** 2.0, lambda x: x ** 3.0, jnp.array([-2.0])))
#> [4.]

# ---- shapes are known while tracing; computed with NumPy they stay known
x = jnp.ones((2, 3))
try:
    jit(lambda x: x.reshape(jnp.array(x.shape).prod()))(x)
except TypeError as error:
    print(str(error).partition(",")[0])
#> Shapes must be 1D sequences of concrete values of integer type
print(jit(lambda x: x.reshape(np.prod(x.shape)))(x))
#> [1. 1. 1. 1. 1. 1.]

# ---- the program itself
print(calque.make_jaxpr(lambda x, y: 2 * x**2 + y)(jnp.ones(3), jnp.ones(3)))
#> { lambda ; a:f32[3] b:f32[3]. let
#>     c:f32[3] = integer_pow[y=2] a
#>     d:f32[3] = mul 2.0:f32[] c
#>     e:f32[3] = add d b
#>   in (e,) }


# ---- side effects happen while tracing
def noisy(a, b):
    print("Calculating sum")
    return a + b


print(jit(noisy)(jnp.arange(3), jnp.arange(3)))
#> Calculating sum
#> [0 2 4]
print(jit(noisy)(jnp.arange(3), jnp.arange(3)))
#> [0 2 4]

# ---- transformations compose
f = lambda x: x**3 + 2*x**2 - 3*x + 8  # noqa: E731
slope = grad(f)
print(slope(1.0), jit(grad(f))(1.0), grad(jit(f))(1.0))
#> 4.0 4.0 4.0
print(grad(slope)(1.0), grad(grad(slope))(1.0))
#> 10.0 6.0
