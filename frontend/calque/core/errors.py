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
    """Base of the type errors that tracing raises.

    Example:
      >>> import calque
      >>> issubclass(calque.errors.TracerBoolConversionError, calque.errors.JAXTypeError)
      True
    """


class JAXIndexError(IndexError):
    """Base of the index errors that tracing raises.

    Example:
      >>> import calque
      >>> issubclass(calque.errors.NonConcreteBooleanIndexError, calque.errors.JAXIndexError)
      True
    """


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where a concrete one is needed.

    Fails::

        >>> import calque
        >>> calque.jit(lambda x, n: x * float(n))(1.5, 2)
        Traceback (most recent call last):
          ...
        ConcretizationTypeError

    Mended, n being static::

        >>> calque.jit(lambda x, n: x * float(n), static_argnums=1)(1.5, 2)
        Array(3., dtype=float32, weak_type=True)
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """The truth value of a traced array was asked for (`if`, `while`, `and`, `or`, `not`, assert).

    Fails::

        >>> import calque, calque.numpy as jnp
        >>> calque.jit(lambda x: x if x > 0 else -x)(-3.0)
        Traceback (most recent call last):
          ...
        TracerBoolConversionError

    Mended, with jnp.where (or lax.cond, or a static argument)::

        >>> calque.jit(lambda x: jnp.where(x > 0, x, -x))(-3.0)
        Array(3., dtype=float32, weak_type=True)
    """


class TracerArrayConversionError(JAXTypeError):
    """NumPy was handed a traced array.

    Fails::

        >>> import calque, calque.numpy as jnp, numpy as np
        >>> calque.jit(lambda x: np.sin(x))(0.0)
        Traceback (most recent call last):
          ...
        TracerArrayConversionError

    Mended, with calque's function of the same name::

        >>> calque.jit(lambda x: jnp.sin(x))(0.0)
        Array(0., dtype=float32, weak_type=True)
    """


class TracerIntegerConversionError(JAXTypeError):
    """A traced integer was used where Python needs one (list index, range, repetition).

    Fails::

        >>> import calque, calque.numpy as jnp
        >>> calque.jit(lambda i: [10, 20, 30][i])(1)
        Traceback (most recent call last):
          ...
        TracerIntegerConversionError

    Mended, the list being an array::

        >>> calque.jit(lambda i: jnp.array([10, 20, 30])[i])(1)
        Array(20, dtype=int32)
    """


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index: the result's shape would depend on its values.

    Fails::

        >>> import calque, calque.numpy as jnp
        >>> x = jnp.array([1.0, -2.0])
        >>> calque.jit(lambda x: x[x > 0])(x)
        Traceback (most recent call last):
          ...
        NonConcreteBooleanIndexError

    Mended, with a result of known shape::

        >>> calque.jit(lambda x: jnp.where(x > 0, x, 0))(x)
        Array([1., 0.], dtype=float32)
    """


class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after its transformation had ended (it leaked).

    Fails::

        >>> import calque
        >>> saved = []
        >>> def f(x):
        ...     saved.append(2 * x)
        ...     return x
        >>> y = calque.jit(f)(1.0)
        >>> saved[0] + 1
        Traceback (most recent call last):
          ...
        UnexpectedTracerError

    Mended, the value being returned instead of stored::

        >>> y, doubled = calque.jit(lambda x: (x, 2 * x))(1.0)
        >>> doubled + 1
        Array(3., dtype=float32, weak_type=True)
    """


class CustomVJPException(TypeError):
    """A custom_vjp function is differentiated by a value that it closes over."""


class KeyReuseError(JAXTypeError):
    """A PRNG key was consumed twice.

    Raised with jax_debug_key_reuse, of keys that random.key made; without it two draws from one key
    are equal, and nobody says so.

    Fails::

        >>> import calque, calque.random as random
        >>> k = random.key(0)
        >>> with calque.debug_key_reuse(True):
        ...     random.uniform(k), random.uniform(k)
        Traceback (most recent call last):
          ...
        KeyReuseError

    Mended::

        >>> k = random.key(0)
        >>> with calque.debug_key_reuse(True):
        ...     a, b = random.split(k)
        ...     random.uniform(a), random.uniform(b)
        (Array(0.5572065, dtype=float32), Array(0.10536897, dtype=float32))
    """


class TypePromotionError(ValueError):
    """Two dtypes have no implicit common dtype.

    Fails::

        >>> import calque.numpy as jnp
        >>> jnp.float8_e4m3fn(1) + jnp.float32(1)
        Traceback (most recent call last):
          ...
        TypePromotionError

    Mended, with a cast::

        >>> jnp.float8_e4m3fn(1).astype(jnp.float32) + jnp.float32(1)
        Array(2., dtype=float32)
    """


class InconclusiveDimensionOperation(Exception):
    """A symbolic dimension was compared and the answer is not known.

    What is traced for sizes that are known at the call only (`calque.export.symbolic_shape`,
    `--arg f32[b,3]`) may not ask what their values decide.

    Fails::

        >>> from calque import export
        >>> b, = export.symbolic_shape("b")
        >>> b > 3
        Traceback (most recent call last):
          ...
        calque.errors.InconclusiveDimensionOperation: Symbolic dimension comparison ...

    Mended, with a constraint::

        >>> b, = export.symbolic_shape("b", constraints=["b >= 4"])
        >>> b > 3
        True
    """
