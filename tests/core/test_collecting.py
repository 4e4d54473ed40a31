"""Python's garbage collector runs rarely while programs are traced and lowered, and as before
afterwards, whatever happens."""
from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import calque
import calque.numpy as jnp
from calque.core import collecting


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    gc.enable()


def test_while_tracing_and_lowering() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(gc.get_threshold())
        return calque.vmap(lambda r: r * 2)(x)

    calque.jit(f)(jnp.ones((2, 3)))
    assert seen == [(collecting.YOUNG, 10, 10)]
    assert gc.get_threshold() == (700, 10, 10)


def test_after_errors() -> None:
    def f(x: Any) -> Any:
        raise KeyError("no")

    with pytest.raises(KeyError):
        calque.jit(f)(1.0)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("given", [(0, 10, 10), (10**6, 5, 5)], ids=str)
def test_what_the_user_chose_stays(given: tuple[int, int, int]) -> None:
    gc.set_threshold(*given)
    seen = []
    calque.jit(lambda x: (seen.append(gc.get_threshold()), x + 3)[1])(1.0)
    assert seen == [given] and gc.get_threshold() == given


def test_what_the_user_chooses_meanwhile_stays() -> None:
    calque.jit(lambda x: (gc.set_threshold(900, 9, 9), x + 4)[1])(1.0)
    assert gc.get_threshold() == (900, 9, 9)


def test_it_stays_off() -> None:
    gc.disable()
    calque.jit(lambda x: x + 5)(1.0)
    assert not gc.isenabled()


def test_many_threads() -> None:
    """However they meet, the last one leaves what was there."""
    start = threading.Barrier(8)

    @collecting.rarely
    def inner(n: int) -> int:
        return n if not n else inner(n - 1)

    def work() -> None:
        start.wait()
        for _ in range(2000):
            inner(2)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert gc.get_threshold() == (700, 10, 10) and not collecting._inside
