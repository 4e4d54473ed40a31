"""Wrong lines; behind each the code of the error that mypy is to find there (test_typing.py)."""
import calque
import calque.numpy as jnp
from calque import Array, lax, nn, random

x = jnp.ones(3)


def scaled(x: Array, factor: float) -> Array:
    return x * factor


def pair(x: Array) -> tuple[Array, Array]:
    return x, x


jnp.sin([1.0, 2.0])  # arg-type
jnp.sin("a")  # arg-type
jnp.sin()  # call-arg
jnp.sin(x, y=1)  # call-arg
jnp.random.normal(0, 1, 3)  # attr-defined
jnp.foo(x)  # attr-defined
calque.sin(x)  # attr-defined
lax.matmul(x, x)  # attr-defined
nn.Relu(x)  # attr-defined
random.rand(3)  # attr-defined
x.foo  # attr-defined
x.shape = (3,)  # misc
x + "a"  # operator
x @ [1.0]  # operator
x < "a"  # operator
x.reshape(3).at[0].sett(1.0)  # attr-defined
x.at[0] = 2  # index
x.at[0].set("a")  # arg-type
x.sum(axis="rows")  # arg-type
jnp.sum(x, axis="rows")  # arg-type
jnp.zeros(3, dtype=4)  # arg-type
jnp.where(x > 0, x)  # call-overload
jnp.dot(x)  # call-arg
jnp.add(x)  # call-arg
calque.jit(scaled)(x)  # call-arg
calque.jit(scaled)(x, "a")  # arg-type
calque.jit(scaled, static_argnums="factor")  # arg-type
calque.jit(scaled)(x, 2.0).foo  # attr-defined
calque.jit(scaled).lowerr(x, 2.0)  # attr-defined
calque.grad(scaled)(x)  # call-arg
calque.value_and_grad(scaled)(x, 1.0).sum()  # attr-defined
calque.vmap(scaled)(x, 1.0, 2.0)  # call-arg
calque.checkpoint(scaled)(x)  # call-arg
lax.scan(pair, "a", x)  # arg-type
lax.while_loop(lambda c: True, pair, x)  # arg-type
a, b = jnp.linalg.svd(x)  # misc
u = jnp.linalg.eigh(x).values  # attr-defined
random.split(random.key(0), 2).foo  # attr-defined
n: int = x.sum()  # assignment
s: str = x.shape  # assignment
