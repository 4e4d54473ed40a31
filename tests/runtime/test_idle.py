"""Memory that is kept for the next call: what is used again, and when the rest is given back."""
from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import runtime
from calque.runtime import device, executable, idle, leaving, memory
from calque.runtime.idle import KEPT_BYTES, Idle

MIB = 1 << 20


class Allocator:
    """One with a cache of every size that nothing falls out of."""

    has_statistics = True

    def __init__(self) -> None:
        self.free: list[int] = []
        self.fresh = self.freed = self.trims = 0

    @property
    def statistics(self) -> dict[str, int]:
        return {"device_bytes_allocated": self.fresh, "device_bytes_freed": self.freed}

    def take(self, size: int) -> None:
        if size in self.free:
            self.free.remove(size)
        else:
            self.fresh += size

    def trim(self) -> None:
        self.freed += sum(self.free)
        self.trims += bool(self.free)
        self.free = []


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(idle, "QUIET_S", 0.02)
    allocator = Allocator()
    return allocator, Idle(lambda: [allocator])


def call(allocator: Allocator, of: Idle, size: int) -> None:
    allocator.take(size)
    of.note(size)
    allocator.free.append(size)


def wait_for(said: Any) -> None:
    end = time.monotonic() + 20
    while not said():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_loop_that_takes_what_it_dropped_asks_once(pair: Any, monkeypatch: pytest.MonkeyPatch
                                                     ) -> None:
    allocator, of = pair
    monkeypatch.setattr(idle, "QUIET_S", 60)  # the loop is faster than that
    held = [2000 * MIB]  # a model, in use
    allocator.take(held[0])
    of.note(held[0])
    for _ in range(20):
        for size in (300 * MIB, 200 * MIB, 100 * MIB):
            call(allocator, of, size)
    assert allocator.fresh <= 2000 * MIB + 2 * 600 * MIB and allocator.trims <= 1


def test_a_result_that_takes_the_place_of_the_last_one(pair: Any, monkeypatch: pytest.MonkeyPatch
                                                       ) -> None:
    allocator, of = pair
    monkeypatch.setattr(idle, "QUIET_S", 60)
    allocator.take(1000 * MIB)
    of.note(1000 * MIB)
    last = 0
    for _ in range(20):  # y = f(x), where y lives until the next one is there
        allocator.take(1000 * MIB)
        of.note(1000 * MIB)
        allocator.free += [1000 * MIB] * (last > 0)
        last = 1
    assert allocator.fresh == 3000 * MIB


def test_sizes_that_do_not_come_again_do_not_pile_up(pair: Any) -> None:
    allocator, of = pair
    most = 0
    for k in range(200):
        call(allocator, of, 50 * MIB + k)
        most = max(most, allocator.fresh - allocator.freed)
    assert most <= 2 * KEPT_BYTES + 100 * MIB


def test_what_was_dropped_is_given_back_when_nobody_asks(pair: Any) -> None:
    allocator, of = pair
    for _ in range(3):
        allocator.take(400 * MIB)
        of.note(400 * MIB)
    time.sleep(0.1)  # the arrays are in use for long after the last call
    assert of.held_bytes() == 1200 * MIB
    allocator.free += [400 * MIB] * 3
    wait_for(lambda: of.held_bytes() == 0)
    wait_for(lambda: of._watcher is None)
    for _ in range(3):  # and once more
        allocator.take(400 * MIB)
        of.note(400 * MIB)
    allocator.free += [400 * MIB] * 3
    wait_for(lambda: of.held_bytes() == 0)


def test_little_is_kept_and_nobody_watches(pair: Any) -> None:
    allocator, of = pair
    for _ in range(100):
        call(allocator, of, 10 * MIB)
    assert allocator.fresh == 10 * MIB and allocator.trims == 0 and of._watcher is None


def test_the_watcher_does_not_keep_a_process_from_leaving(pair: Any) -> None:
    allocator, of = pair
    allocator.take(1000 * MIB)
    of.note(1000 * MIB)
    assert of._watcher is not None and not leaving._is_busy()
    allocator.free.append(1000 * MIB)
    wait_for(lambda: of._watcher is None)


def test_one_watcher_for_many_threads(pair: Any) -> None:
    allocator, of = pair
    allocator.take(1000 * MIB)
    before = threading.active_count()
    threads = [threading.Thread(target=lambda: [of.note(70 * MIB) for _ in range(50)])
               for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert threading.active_count() <= before + 1
    allocator.free.append(1000 * MIB)
    wait_for(lambda: of._watcher is None)


def test_the_limit_is_the_machines_or_the_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Any
                                                 ) -> None:
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "less").write_text("3000000\n")
    monkeypatch.setattr(device, "_LIMITS", (str(tmp_path / "max"), str(tmp_path / "none")))
    whole = device.host_bytes.__wrapped__()
    assert whole > 100 * MIB
    monkeypatch.setattr(device, "_LIMITS", (str(tmp_path / "less"),))
    assert device.host_bytes.__wrapped__() == 3000000


def fresh() -> int:
    return sum(int(device._hal_devices[name].allocator.statistics["device_bytes_allocated"])
               for name in ("local-sync", "local-task") if name in device._hal_devices)


def test_blocks_are_used_again_beside_much_that_is_in_use() -> None:
    where = runtime.default_device()
    kept = [memory.allocate(where, 160 * MIB) for _ in range(4)]  # (pages that nobody touches)
    first = memory.allocate(where, 33 * MIB + 64)
    del first
    before = fresh()
    for _ in range(5):
        again = memory.allocate(where, 33 * MIB + 64)
        del again
    assert fresh() == before
    del kept
    device.idle_memory.give_back()


@pytest.mark.parametrize("name", ["kernels of ours", "IREE's stages"])
def test_large_memory_between_operations_is_used_again(name: str, monkeypatch: pytest.MonkeyPatch
                                                       ) -> None:
    loaded: list[executable.Executable] = []
    load = executable.Executable._load_on

    def noted(self: Any, on: Any) -> Any:
        loaded.append(self)
        return load(self, on)

    monkeypatch.setattr(executable.Executable, "_load_on", noted)
    rows = 64 if name == "kernels of ours" else 4
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4200, rows)).astype("f4")
    b = rng.normal(size=(rows, 4200)).astype("f4")
    f = calque.jit(lambda a, b: (a @ b) @ a)
    x, y = jnp.asarray(a), jnp.asarray(b)
    wanted = a.astype("f8") @ b.astype("f8") @ a.astype("f8")
    # sums of 4,200 products in float32
    np.testing.assert_allclose(np.asarray(f(x, y)), wanted, rtol=2e-5, atol=2e-3)
    between = 4200 * 4200 * 4
    assert between <= loaded[-1]._storage < 2 * between
    before = fresh()
    kept = [f(x, y) for _ in range(6)]  # nobody waits
    for z in kept:
        np.testing.assert_array_equal(np.asarray(z), np.asarray(kept[0]))
    assert fresh() - before < 2 * between  # two calls may be under way


def test_little_between_operations_is_the_queues() -> None:
    lowered = calque.jit(lambda a: (a @ a) @ a).lower(jnp.ones((700, 700)))
    assert "transients" not in lowered.as_text()
