"""Phrases of errors that JAX's users search for, where the conformance sample does not ask."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.experimental import checkify


class Unsigned:
    """A function whose signature cannot be had."""

    @property
    def __signature__(self) -> Any:
        raise TypeError("no signature")

    def __call__(self, *args: Any) -> None:
        return None


def leaked() -> Any:
    """A value of a trace that has ended."""
    kept = []
    calque.jit(lambda x: kept.append(x * 2))(1.0)
    return kept[0]


def _vectorized() -> Any:
    with calque.numpy_rank_promotion("raise"):
        return jnp.vectorize(jnp.add, signature="(),()->()")(jnp.ones((2, 2)), jnp.ones(2))


FLOAT0 = np.zeros(2, calque.dtypes.float0)
CASES: list[tuple[type[Exception], str, Callable[[], Any]]] = [
    (TypeError, "^key accepts a scalar seed, but was given a PRNG key",
     lambda: random.key(random.key(0))),
    (TypeError, r"^PRNGKey accepts a scalar seed, but was given an array of shape \(4,\) != \(\)",
     lambda: random.PRNGKey(np.arange(4))),
    (TypeError, "^unrecognized type .* for specifying PRNG", lambda: random.key(0, impl=object())),
    (ValueError, r"rank should be at least 4, but is only 3 \(its shape is \(2, 3, 4\)\)",
     lambda: calque.vmap(lambda x: x, in_axes=-4)(jnp.ones((2, 3, 4)))),
    (calque.errors.ConcretizationTypeError, r"try using `x.astype\(int\)` or `jnp.array\(x, int\)`",
     lambda: calque.jit(int)(1.0)),
    (TypeError, "^Called add with a float0 array. float0s do not support any operations by design",
     lambda: jnp.add(FLOAT0, FLOAT0)),
    (TypeError, "float0s do not support any operations by design", lambda: jnp.ones(2) + FLOAT0),
    (ValueError, "^Getting the signature of function .* failed. Pass donate_argnums instead of don",
     lambda: calque.jit(Unsigned(), donate_argnames="a")),
    (calque.errors.UnexpectedTracerError, "Encountered an unexpected tracer",
     lambda: calque.jit(jnp.add)(jnp.ones(()), leaked())),
    (ValueError, r"s must have at most x.ndim \(2\) elements, got 3",
     lambda: calque.scipy.fft.dctn(jnp.ones((2, 2)), s=(2, 3, 4))),
    (ValueError, "Cannot abstractly evaluate a check in jit",
     lambda: calque.jit(lambda x: checkify.check(x > 0, "not positive"))(1.0)),
    (ValueError, r"^operands with shapes \(2, 2\) \(2,\) require rank promotion", _vectorized)]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_phrase(case: tuple[type[Exception], str, Callable[[], Any]]) -> None:
    kind, said, call = case
    with pytest.raises(kind, match=said):
        call()


def test_result_types_of_nothing_and_of_weak_values() -> None:
    assert jnp.result_type(None) == np.float32
    assert calque.dtypes.result_type(None, np.int8) == np.float32
    assert calque.dtypes.result_type(1.0, return_weak_type_flag=True) == (np.float32, True)
    assert calque.dtypes.result_type(np.int8(1), 2, return_weak_type_flag=True) == (np.int8, False)


def test_loops_under_disable_jit_are_traced_where_values_are_not_at_hand() -> None:
    with calque.disable_jit():
        found = calque.vmap(lambda n: lax.while_loop(lambda x: x < n, lambda x: x * 2, 1))(
            jnp.array([3, 9]))
    assert found.tolist() == [4, 16]


def test_copy_to_host_async_and_the_name_of_make_jaxpr() -> None:
    class Asked:
        count = 0

        def copy_to_host_async(self) -> None:
            self.count += 1

    x = [jnp.ones(2), "text", Asked(), 3]
    assert calque.copy_to_host_async(x) is x and x[2].count == 1  # type: ignore[attr-defined]
    assert calque.make_jaxpr(leaked).__name__ == "make_jaxpr(leaked)"


def test_print_environment_info(capsys: pytest.CaptureFixture[str]) -> None:
    text = calque.print_environment_info(return_string=True)
    assert capsys.readouterr().out == "" and f"numpy: {np.__version__}" in str(text)
    assert calque.print_environment_info() is None and capsys.readouterr().out == f"{text}\n"
