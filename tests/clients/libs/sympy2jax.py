"""SymPy's expressions as modules."""
import equinox as eqx
import jax
import jax.numpy as jnp
import sympy
import sympy2jax

_a, _b = sympy.symbols("a b")
_module = sympy2jax.SymbolicModule([1.5 * sympy.sin(_a) + 0.5 * sympy.exp(_b) ** 2,
                                    sympy.Max(_a, _b)])


def values():
    return _module(a=jnp.array(0.3), b=jnp.array(0.2))


@eqx.filter_jit
def _slope(module, x):
    return eqx.filter_grad(lambda m: jax.vmap(lambda t: m(a=t, b=t * t)[0])(x).sum())(module)


def step():
    return jax.tree.leaves(eqx.filter(_slope(_module, jnp.linspace(0, 1, 100)), eqx.is_array))
