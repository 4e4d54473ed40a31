"""What is written, or compiled, another way where IREE rejects it (driver/attempts)."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.lowering.compiler.compile import CompileError
from calque.lowering.driver import attempts

FLAG = "--iree-opt-const-expr-hoisting=false"


def test_constants_that_cannot_be_moved_to_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE moves what is constant into an initializer, and rejects some of what it finds there (a
    gradient through a scan of halves: tests/fuzz_api.py --explain 471265)."""
    real, asked = attempts.compile_cached, []

    def rejecting(module: Any, target: Any, options: Any = (), **how: Any) -> bytes:
        asked.append(options)
        if FLAG not in options:
            raise CompileError(["<program>:3:0: failed to legalize operation 'util.initializer' "
                                "that was explicitly marked illegal"])
        return real(module, target, options, **how)

    monkeypatch.setattr(attempts, "compile_cached", rejecting)
    x = jnp.arange(3.0) + 0.125
    np.testing.assert_array_equal(calque.jit(lambda x: x * 7 - 0.25)(x), np.asarray(x) * 7 - 0.25)
    assert [FLAG in options for options in asked] == [False, True]
    assert asked[1].count(FLAG) == 1


def test_other_faults_are_not_tried_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def rejecting(module: Any, target: Any, options: Any = (), **how: Any) -> bytes:
        asked.append(options)
        raise CompileError(["another fault"])

    monkeypatch.setattr(attempts, "compile_cached", rejecting)
    with pytest.raises(CompileError, match="another fault"):
        calque.jit(lambda x: x * 11 - 0.75)(jnp.arange(3.0))
    assert not any(FLAG in options for options in asked)
