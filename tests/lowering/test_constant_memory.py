"""Constants that do not fit in memory: neither the compiler nor the process runs out of it."""
from __future__ import annotations

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.errors import JaxRuntimeError
from calque.lowering.driver.module import lower
from calque.lowering.emit.context import CONSTANT_BYTES
from calque.lowering.target.targets import cpu_target

LATER = "--iree-opt-const-expr-hoisting=false"


def test_a_product_of_constants_beyond_any_memory() -> None:
    f = calque.jit(lambda: jnp.ones((10**6, 10**6)) @ jnp.ones((10**6, 3)))
    with pytest.raises(JaxRuntimeError, match=r"(?s)RESOURCE_EXHAUSTED: out of memory allocating "
                       r"up to 3\.6 TiB.*Fix: delete arrays"):
        f()


def test_eager_results_beyond_any_memory_say_their_size() -> None:
    with pytest.raises(JaxRuntimeError, match=r"allocating 3\.6 TiB"):
        jnp.ones(10**12)


def test_large_constants_are_computed_when_the_program_runs() -> None:
    n = CONSTANT_BYTES // 4 + 1
    program = calque.make_jaxpr(lambda: (jnp.ones(n) / 2).sum())()
    assert LATER in lower(program, cpu_target()).options
    assert LATER not in lower(calque.make_jaxpr(lambda: (jnp.ones(100) / 2).sum())(),
                              cpu_target()).options
    np.testing.assert_allclose(calque.jit(lambda: (jnp.ones(n) / 2).sum())(), n / 2, rtol=1e-6)
