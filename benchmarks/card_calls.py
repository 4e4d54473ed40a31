"""Calls on a GPU, memory there and back, what is left at the end: the runtime alone, in a minute.

    python benchmarks/card_calls.py [--platform cuda|vulkan] [--before] [--json FILE]

--before: as it was: arguments in managed memory, CUDA's own allocations, results and what lies
between asked of the queue at each call, a waiting thread that blocks after 50 us.  Run both and
compare.  Needs calque with its compiler; needs no other package.  Every result is checked.
"""
from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def before() -> None:
    """Undo what changed."""
    from calque.lowering.target.targets import Target
    from calque.runtime import device, memory, pending
    memory.DEVICE_USAGE = memory.HOST_USAGE
    device._CUDA_FLAGS = "--cuda_async_allocations=true"
    device.cuda_allocators = lambda index: []
    Target.takes_storage = property(lambda self: False)
    Target.takes_memory = property(lambda self: self.backend == "llvm-cpu")
    pending.LOOKING_S = 5e-5


def median(call: Callable[[], Any], seconds: float = 0.5, least: int = 20) -> float:
    """Microseconds."""
    for _ in range(3):
        call()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return sorted(found)[len(found) // 2] * 1e6


def measure_program(name: str, fun: Any, args: tuple[Any, ...], cpu: Any,
                    show: Callable[..., None]) -> None:
    """Waiting for each call, for each twentieth, and for none."""
    import calque
    call = calque.jit(fun)
    want = np.asarray(calque.jit(fun)(*[calque.device_put(np.asarray(a), cpu) for a in args]))
    error = np.abs(np.asarray(call(*args)) - want).max() / (np.abs(want).max() + 1e-30)
    assert error < 5e-3, (name, error)
    show(name, median(lambda: call(*args).block_until_ready()))

    def twenty() -> None:
        made = [call(*args) for _ in range(20)]
        made[-1].block_until_ready()
    show(f"{name}, each of 20 in a row", median(twenty, 0.3, 5) / 20)
    start = time.perf_counter()
    made = [call(*args) for _ in range(10)]
    show(f"{name}, until a call returns", (time.perf_counter() - start) / 10 * 1e6)
    made[-1].block_until_ready()


def measure_copies(value: Any, device: Any, show: Callable[..., None]) -> None:
    """An array there and back."""
    import calque
    there = calque.device_put(value, device)
    np.testing.assert_array_equal(np.asarray(there), value)
    show(f"there, {value.nbytes} bytes", median(
        lambda: calque.device_put(value, device).block_until_ready(), 0.3, 5))
    buffer = there._buffer
    buffer.wait()
    show(f"back, {value.nbytes} bytes", median(buffer._fetch, 0.3, 5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", default="cuda", choices=("cuda", "vulkan"))
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    from calque_cli import doctor

    import calque
    import calque.numpy as jnp
    if options.before:
        before()
    device = calque.devices(options.platform)[0]
    rows: dict[str, float] = {}

    def show(name: str, value: float, unit: str = "us") -> None:
        rows[name] = value
        print(f"{name:44} {value:12.1f} {unit}", flush=True)

    print(device, device.device_kind, "as it was before" if options.before else "")
    if options.platform == "cuda":
        print(doctor.cuda_card(device))
    draw = np.random.default_rng(0)

    def put(*shape: int) -> Any:
        return calque.device_put(draw.uniform(-1, 1, shape).astype(np.float32), device)

    small, long, square = put(4), put(10_000_000), put(1024, 1024)
    layers = put(64, 784), put(784, 512), put(512, 10)
    programs: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "add 4": (lambda x: x + x, (small,)),
        "tanh 1e7": (jnp.tanh, (long,)),
        "sum 1e7": (jnp.sum, (long,)),
        "softmax 1000x1000": (lambda x: calque.nn.softmax(x[:1000, :1000]), (square,)),
        "matmul 1024": (jnp.matmul, (square, square)),
        "MLP 64": (lambda x, w, u: jnp.tanh(x @ w) @ u, layers)}
    for name, (fun, args) in programs.items():
        measure_program(name, fun, args, calque.devices("cpu")[0], show)
    show("eager add 4", median(lambda: (small + small).block_until_ready()))
    for size in (4, 1_000_000, 25_000_000):
        measure_copies(draw.uniform(-1, 1, size).astype(np.float32), device, show)
    step = calque.jit(lambda x: jnp.sin(x) * 0.5 + x, donate_argnums=0)
    x = put(4_000_000)
    start = time.perf_counter()
    for _ in range(200):
        x = step(x)
    x.block_until_ready()
    show("200 donated steps of 16 MB, each", (time.perf_counter() - start) / 200 * 1e6)
    try:
        calque.jit(lambda x: jnp.broadcast_to(x, (2**36,)) + 1)(small[0]).block_until_ready()
        print("256 GiB were given?")
    except RuntimeError as error:
        print(f"\nOut of memory says: {error}")
    assert float((small + small)[0]) == 2 * float(small[0])  # and the device goes on
    if options.json:
        options.json.write_text(json.dumps(rows))
    print(f"done; process {os.getpid()} should end with status 0")


if __name__ == "__main__":
    main()
