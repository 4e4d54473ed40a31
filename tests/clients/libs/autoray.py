"""NumPy's functions, dispatched by the arrays' type."""
import autoray
import jax.numpy as jnp

_X = jnp.sin(jnp.arange(12.0)).reshape(3, 4)


def backend():
    return autoray.infer_backend(_X)


def calls():
    return [autoray.do(name, _X) for name in ("sin", "sum", "transpose", "linalg.norm")]


def lazy():
    x = autoray.lazy.array(_X)
    return (x @ autoray.do("transpose", x)).compute()


_program = autoray.autojit(lambda x: autoray.do("exp", x) @ autoray.do("transpose", x),
                           backend="jax")


def step():
    return _program(_X)
