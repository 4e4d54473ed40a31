"""What a process that ends does with its Vulkan devices: here the mechanism, on any device."""
from __future__ import annotations

import gc
import sys
import threading
from types import SimpleNamespace
from typing import Any

import iree.runtime as rt
import numpy as np
import pytest

from calque import runtime
from calque.runtime import Buffer, Device, leaving
from calque.runtime import device as devices
from calque.runtime.errors import DeletedBufferError, DeviceError


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device that seems to be one of Vulkan, as if this process had opened it alone."""
    hal = rt.get_driver("local-task").create_default_device()
    devices._make_immortal(hal)
    made = Device("vulkan", 0, "a stand-in")
    vars(made).update(sync=hal, task=hal)
    monkeypatch.setattr(devices, "_hal_devices", {"vulkan://0": hal})
    monkeypatch.setattr(devices, "_forked", False)
    monkeypatch.setattr(leaving, "_ended", [])
    hals = [hal]
    del hal
    return made, hals


def references(hals: list[Any]) -> int:
    return sys.getrefcount(hals[0]) - 2


def test_nothing_is_left_of_a_device(opened: Any, vmfb: bytes) -> None:
    device, hals = opened
    program = runtime.Executable(vmfb, device, runtime.CallSpec(
        [((8,), np.dtype(np.float32))]), "add")
    x = Buffer.from_numpy(np.ones(8, np.float32), device)
    kept = [x, *program([x, x]), x.with_shape((2, 4))]
    on_cpu = Buffer.from_numpy(np.ones(3), runtime.default_device())
    gc.freeze()  # what the garbage collector does not look at is found, too
    assert not leaving.is_over()
    leaving.let_go(devices._opened, devices.hal_module)
    assert leaving.is_over() and all(b.is_deleted() for b in kept)
    assert references(hals) == 0  # this list alone: nothing keeps it for ever any more
    with pytest.raises(DeletedBufferError):
        kept[1].numpy()
    with pytest.raises(DeviceError, match="the process is ending"):
        _ = device.task
    np.testing.assert_array_equal(on_cpu.numpy(), np.ones(3))


def test_calls_under_way_are_waited_for(opened: Any) -> None:
    device, hals = opened
    waited: list[bool] = []

    class Calls:
        def __init__(self, *how: bool) -> None:
            pass

        def wait(self) -> None:
            waited.append(True)

    device.pending = Calls()
    leaving.let_go(devices._opened, devices.hal_module)
    assert waited == [True] and references(hals) == 0


def test_a_thread_inside_a_call_keeps_everything(opened: Any) -> None:
    device, hals = opened
    x = Buffer.from_numpy(np.ones(8, np.float32), device)
    semaphore = device.task.create_semaphore(0)
    x.fence = semaphore
    thread = threading.Thread(target=x.wait, daemon=True)
    thread.start()
    while not leaving._is_busy():
        pass
    leaving.let_go(devices._opened, devices.hal_module)
    assert not leaving.is_over() and not x.is_deleted() and references(hals) > 0
    semaphore.signal(1)
    thread.join()
    assert not leaving._is_busy()


def test_only_vulkan_devices_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    leaving.watch.cache_clear()
    monkeypatch.setattr(leaving.atexit, "register", lambda f, *_: asked.append(f))
    monkeypatch.setattr(devices, "_hal_devices", {})
    monkeypatch.setattr(devices, "_create", lambda uri: SimpleNamespace())
    devices._hal_device("cuda://0")
    assert not asked
    devices._hal_device("vulkan://0")
    devices._hal_device("vulkan://1")
    assert asked == [leaving.let_go]
    monkeypatch.setattr(devices, "_forked", True)  # a child has none of its parent's
    assert devices._opened() == {}
    leaving.watch.cache_clear()


SCRIPT = """
import atexit, os
import numpy as np  # (it starts threads of its own)
threads = lambda: len(os.listdir("/proc/self/task"))
before = threads()
atexit.register(lambda: print(threads() - before, kept[1].is_deleted()))
from calque import runtime
from calque.runtime import Buffer
device = runtime.devices("vulkan")[0]
kept = [device, Buffer.from_numpy(np.ones(8, np.float32), device)]
kept.append(kept[1].copy())
assert kept[2].numpy().sum() == 8 and threads() > before
"""


@pytest.mark.vulkan
def test_the_threads_of_a_vulkan_device_end_before_the_process(run_python: Any) -> None:
    done = run_python(SCRIPT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 True\n" and not done.stderr
