"""Integers known before anything runs are what compiled code computes."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.lowering.passes import cost
from calque.primitives import simplify
from calque.primitives.known import RULES, UnknownError, evaluate
from calque.transforms.stage import stage

NUMBERS = [0, 1, -1, 2, -3, 7, 31, 32, 33, -32, 2**31 - 1, -2**31, 100, -7, 255]


def _calls(x: np.ndarray, y: np.ndarray) -> list[tuple[str, list[Any], dict[str, Any]]]:
    found: list[tuple[str, list[Any], dict[str, Any]]] = []
    for name in RULES:
        p = registry[name]
        if name == "convert_element_type":
            found += [(name, [x], {"new_dtype": np.dtype(d), "weak_type": False, "sharding": None})
                      for d in ("int8", "uint8", "bool", "int32", "uint32")]
        elif name == "select_n":
            found.append((name, [x != 0, x, y], {}))
        elif name == "clamp":
            found.append((name, [x, y, np.flip(x)], {}))
        elif name == "integer_pow":
            found.append((name, [x], {"y": 3}))
        else:
            found.append((name, [x, y][:p.arity or 1], {}))
    return found


def _accepted(name: str, args: list[Any], params: dict[str, Any]) -> bool:
    try:
        stage(lambda *xs: [registry[name].bind(*xs, **params)],
              [ShapedArray((), a.dtype) for a in args])
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("dtype", [
    "int32", "uint8", "bool", *[pytest.param(d, marks=pytest.mark.slow) for d in (
        "int8", "uint32")]])
def test_rules(dtype: str) -> None:
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(*[np.array(NUMBERS)] * 2))
    calls = [c for c in _calls(x, y) if _accepted(*c)]
    wanted = calque.jit(lambda args: [
        registry[n].bind(*xs, **params) for (n, _, params), xs in zip(calls, args)])(
            [args for _, args, _ in calls])
    assert len(calls) >= 10
    for (name, args, params), want in zip(calls, wanted):
        p = stage(lambda *xs, n=name, params=params: [registry[n].bind(*xs, **params)],
                  [ShapedArray((), a.dtype) for a in args])
        (got,) = evaluate(p, args)
        assert got.dtype == want.dtype, name
        np.testing.assert_array_equal(np.broadcast_to(got, want.shape), want, err_msg=name)


def test_what_is_not_known() -> None:
    p = stage(lambda x: [calque.lax.while_loop(lambda c: c > 3, lambda c: c // 2, x)],
              [ShapedArray((), np.int32)])
    with pytest.raises(UnknownError, match="while"):
        evaluate(p, [np.arange(3)])


def test_what_a_loop_kernel_takes_is_said_alike() -> None:
    """primitives may not import lowering, whose number it is."""
    assert simplify.MUCH == cost.KERNEL_WORK
