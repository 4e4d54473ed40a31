"""calque's error classes.  Names and base classes are JAX's, so that `except` clauses keep working.

Each class is a documented page: what happened, a failing program and the mended one.  Messages have
three parts (what, where, how to fix); `explain` puts them together.  Imports core.source only.
"""
from __future__ import annotations

from calque.core.source import UNKNOWN, here


def explain(what: str, where: str | None = None, fix: str = "") -> str:
    """The three parts of a message, each on its own line; where: the user's line by default."""
    lines = [what]
    if where is None:
        source = here()
        where = "" if source is UNKNOWN else str(source)
    if where:
        lines.append(f"  In {where}.")
    if fix:
        lines.append(f"  Fix: {fix}")
    return "\n".join(lines)


class JAXTypeError(TypeError):
    """Base of the type errors that tracing raises."""


class JAXIndexError(IndexError):
    """Base of the index errors that tracing raises."""


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where a concrete one is needed.

    Fails::

        @jit
        def f(x, n):
            return jnp.zeros(n)        # a shape must be known while tracing

    Mended: make n static::

        @partial(jit, static_argnames="n")
        def f(x, n):
            return jnp.zeros(n)
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """The truth value of a traced array was asked for (`if`, `while`, `and`, `or`, `not`, assert).

    Fails::

        @jit
        def f(x):
            return x if x > 0 else -x

    Mended::

        @jit
        def f(x):
            return jnp.where(x > 0, x, -x)     # or lax.cond, or a static argument
    """


class TracerArrayConversionError(JAXTypeError):
    """NumPy was handed a traced array.

    Fails::

        jit(lambda x: np.sin(x))(1.0)

    Mended::

        jit(lambda x: jnp.sin(x))(1.0)
    """


class TracerIntegerConversionError(JAXTypeError):
    """A traced integer was used where Python needs one (list index, range, repetition).

    Fails::

        jit(lambda xs, i: [10, 20, 30][i])(xs, 1)

    Mended::

        jit(lambda xs, i: jnp.array([10, 20, 30])[i])(xs, 1)
    """


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index: the result's shape would depend on its values.

    Fails::

        jit(lambda x: x[x > 0])(x)

    Mended::

        jit(lambda x: jnp.where(x > 0, x, 0))(x)
    """


class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after its transformation had ended (it leaked).

    Fails::

        saved = []
        jit(lambda x: saved.append(x))(1.0)
        saved[0] + 1

    Mended: return the value from the function instead of storing it.
    """


class KeyReuseError(JAXTypeError):
    """A PRNG key was consumed twice."""


class TypePromotionError(ValueError):
    """Two dtypes have no implicit common dtype.

    Fails::

        jnp.float8_e4m3fn(1) + jnp.float32(1)

    Mended: cast one of them with .astype(...).
    """


class InconclusiveDimensionOperation(Exception):
    """A symbolic dimension was compared and the answer is not known."""
