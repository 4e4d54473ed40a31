"""What trace_to_jaxpr_nounits knows of equations of Programs (flax's scan asks), by arithmetic."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.core import ShapedArray, eval_jaxpr
from calque.extend import linear_util as lu
from calque.interpreters import partial_eval as pe


def _pair(a: Any, b: Any) -> Any:
    return a * a + b, b * 2


CASES: list[Any] = [
    (lambda x, y: calque.jit(_pair)(x, y), 10, 14),
    (lambda x, y: calque.checkpoint(_pair)(x, y), 10, 14),
    (lambda x, y: calque.lax.cond(y > 0, _pair, lambda a, b: (b, a), x, y), None, 14),
    (lambda x, y: calque.lax.cond(y > 0, _pair, lambda a, b: (a, b), x, y), 10, 14),
    (lambda x, y: calque.lax.scan(
        lambda c, _: (_pair(*c), None), (x, y), None, length=2)[0], 20, 14 ** 2 + 10)]
# within another call (flax's nn.scan of jitted and of rematerialized modules)
CASES += [((lambda x, y, f=f: calque.jit(f)(x, y)), known, late) for f, known, late in CASES]
CASES += [(lambda x, y: calque.jit(lambda x, y: calque.checkpoint(calque.jit(_pair))(x, y))(x, y),
           10, 14)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_results_that_do_not_depend_on_the_unknown_are_known(case: Any, dtype: str) -> None:
    f, known, late = case
    if known is None:
        late = 14
    jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(
        lu.wrap_init(lambda x, y: list(f(x, y))),
        [pe.PartialVal.unknown(ShapedArray((), np.dtype(dtype))),
         pe.PartialVal.known(np.dtype(dtype).type(5))])
    assert [o.is_known() for o in outs] == [False, known is not None]
    if known is not None:
        assert float(outs[1].get_known()) == known
    assert float(eval_jaxpr(jaxpr, consts, np.dtype(dtype).type(3))[0]) == late


def test_keys_may_be_unknown() -> None:
    aval = calque.typeof(calque.random.key(0))
    _, outs, _ = pe.trace_to_jaxpr_nounits(
        lu.wrap_init(lambda k, y: list(calque.jit(lambda k, y: (k, y + 1))(k, y))),
        [pe.PartialVal.unknown(aval), pe.PartialVal.known(1.0)])
    assert [o.is_known() for o in outs] == [False, True]
