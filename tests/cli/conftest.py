"""The command line in this process: `calque("run", "x.vmfb")` in a folder that holds model.py."""
from __future__ import annotations

from typing import Any

import pytest
from calque_cli import app
from typer.testing import CliRunner

MODEL = '''"""Functions that the tests compile."""
import numpy as np

import calque
from calque import lax

WEIGHTS = calque.device_put(np.arange(6, dtype=np.float32).reshape(2, 3))
NUMBER = 3


def scale(x, k):
    return lax.add(lax.mul(x, lax.full_like(x, 2)), lax.broadcast(k, x.shape))


def double(x):
    return lax.add(x, x)


def flip(x):
    return lax.bitwise_not(x)


def weighted(x):
    return lax.mul(x, WEIGHTS)


def power(x, n, negative=False):
    y = lax.integer_pow(x, n)
    return lax.neg(y) if negative else y


def model(params, x):
    h = lax.add(lax.mul(params["w"], x), params["b"][0])
    return {"h": h, "parts": (lax.neg(h), x)}


def passes(unused, empty, x):
    return x, empty, lax.neg(x)


def nothing(x):
    return x


def put(x, u):
    return lax.dynamic_update_slice(x, u, (1,))


def wrong(x):
    y = lax.neg(x)
    return lax.add(y, lax.full((7,), 1.0))


def branch(x):
    if x > 0:
        return x
    return lax.neg(x)


def _helper(x):
    raise KeyError("missing")


def raises(x):
    return _helper(x)
'''


class Ended:
    """How a command ended: its exit code and what it wrote."""

    def __init__(self, result: Any) -> None:
        self.code: int = result.exit_code
        self.out: str = result.stdout
        self.err: str = result.stderr
        self.exception = result.exception


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with model.py, the current one."""
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CALQUE_TRACEBACK", raising=False)
    return tmp_path


@pytest.fixture
def calque(folder):
    """Run a command; code=None takes any exit code."""
    def run(*words: str, code: int | None = 0) -> Ended:
        ended = Ended(CliRunner().invoke(app, [str(w) for w in words]))
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        assert code is None or ended.code == code, (ended.out, ended.err)
        return ended
    return run
