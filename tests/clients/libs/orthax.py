"""Orthogonal polynomials: values, quadratures, recurrences, a fit and its gradient."""
import jax
import jax.numpy as jnp
import orthax

_X = jnp.linspace(-0.9, 0.9, 50)
_C = jnp.array([1.0, 0.5, -0.3, 0.2])


def values():
    return [f(_X, _C) for f in (orthax.chebyshev.chebval, orthax.legendre.legval,
                                orthax.hermite.hermval, orthax.laguerre.lagval)]


def quadrature():
    return orthax.legendre.leggauss(8), orthax.chebyshev.chebroots(_C)


def calculus():
    return (orthax.chebyshev.chebint(_C), orthax.legendre.legder(_C),
            orthax.polynomial.polymul(_C, _C), orthax.chebyshev.chebfit(_X, jnp.sin(_X), 5))


_slope = jax.jit(jax.grad(lambda c: (orthax.chebyshev.chebval(_X, c) ** 2).sum()))


def step():
    return _slope(_C)
