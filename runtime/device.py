"""Devices: where buffers live and programs run.

A CPU device is two IREE devices over the same memory: `.sync` runs a program inside the call
(2-4 us), `.task` queues it for a pool of worker threads.  Logical CPU devices
(`set_cpu_device_count`) share both.  A GPU device is one IREE device under both names.  IREE
devices are created at first use and never destroyed: one must outlive every buffer and mapping,
also at interpreter exit (leaving.py has the exception).  Start reading at `devices`.
"""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import itertools
import os
import platform as _platform
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import iree.runtime as rt

from calque.runtime import cuda, leaving
from calque.runtime.errors import DeviceError, explain
from calque.runtime.idle import Idle
from calque.runtime.pending import Pending

# At exit nanobind would list every object still held by a module as a leak; ours are meant to be.
rt._binding.disable_leak_checker()

# IREE's MPI support takes these for an invitation to load libmpi.so and fails without it.
_MPI_VARIABLES = ("PMI_SIZE", "PMI_RANK", "OMPI_COMM_WORLD_SIZE", "MPIEXEC_HOSTNAME")

# Page faults of fresh results cost more than the computation (200 MB elementwise on local-sync:
# 113 ms without a cache, 14 ms with).  IREE's cache keeps up to 4096 blocks, and reuses exact sizes
# only.  Its bound is of all memory that it gave out, idle or not: a program whose arrays are more
# finds nothing there again.  Hence it is a share of the machine's, and `idle` gives back
# what is not used again, beside `trim_occasionally`.
# local-task takes what lies between from a pool of its own, which this does not reach, but for what
# is larger than that pool's pieces.
_CPU_ALLOCATOR = "caching:*=*;{}mib;4096"
_SHARE_OF_HOST = {"local-sync": 0.5, "local-task": 0.25}
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_HOST_BYTES = 1 << 30  # of a host that does not say
_TRIM_EVERY = 64

# CUDA's own way to give memory (cuMemAllocFromPoolAsync from a pool that keeps nothing) asks the
# driver for it at each call, and waits; blocks of IREE's cache are asked for once. What the cache
# counts is all memory that it gave out, so its bound is what XLA takes of a card at its start, and
# whoever needs more trims it (memory.py). The second pool is page-locked memory (staging.py).
_CUDA_FLAGS = "--cuda_async_allocations=false"
_CUDA_ALLOCATOR = "caching:device_local=*;{}mib;1024,host_cached=*;256mib;64"
_SHARE_OF_CARD = 0.75
_CARD_BYTES = 8 << 30  # of one that does not say
_loads = itertools.count(1)

_lock = threading.RLock()
client_of: list[Any] = []  # a platform's name -> what its devices' `client` is: extend/backend
_hal_devices: dict[str, Any] = {}
_cpu_count: int | None = None
FIRST_ID = 2048  # of a process's devices: its number times this
_process = 0  # this one's number among those that run the program together
_device_counts: list[int] = [1]  # CPU devices of each of them
_gpus: tuple[int, ...] = ()  # numbers of GPUs of the host that are this process's
_place = 0  # this process's number among those on its host
# what a package on top of this one says at first use, where the number was not set (1: nothing)
asked_count: list[Callable[[], int]] = []
_forked = False


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a device: on a CPU all kinds are the host's.

    Attributes:
      device: whose it is.
      kind: 'device', 'pinned_host' or 'unpinned_host'.

    Example:
      >>> from calque import runtime
      >>> runtime.devices()[0].default_memory()
      Memory(device=CpuDevice(id=0), kind='device')
    """

    device: Device
    kind: str

    @property
    def platform(self) -> str:
        """The device's."""
        return self.device.platform

    @property
    def process_index(self) -> int:
        """The device's."""
        return self.device.process_index

    def __str__(self) -> str:
        return f"{self.kind.upper()}_{self.device.id}"


class Device:
    """One device: `id`, `platform` ('cpu', 'cuda', 'vulkan'), `device_kind`, and its queues.

    `sync` and `task` are IREE devices; on a GPU both are the same one.  Devices are made by
    `devices`, not by this class.

    Args:
      platform: 'cpu', 'cuda' or 'vulkan'.
      index: number of the device on its platform; of a GPU, on its host.
      kind: the hardware's name.
      path: IREE's name of the device (GPU-... with its UUID); empty for a CPU.

    Example:
      >>> from calque import runtime
      >>> device = runtime.devices()[0]
      >>> device, str(device), device.platform, device.id
      (CpuDevice(id=0), 'cpu:0', 'cpu', 0)
    """

    def __init__(self, platform: str, index: int, kind: str, path: str = "",
                 process: int | None = None) -> None:
        self.process_index = self.host_id = _process if process is None else process
        self.index = self.local_hardware_id = index
        several = len(_device_counts) > 1 and platform != "cpu"  # a process has one GPU then
        self.id = (0 if several else index) + FIRST_ID * self.process_index
        self.platform = platform
        self.device_kind = kind
        self.path = path
        # a thread looks at it for a while before it blocks (waiting.py): not where the work is the
        # cores', as that of lavapipe
        self.is_fast = platform != "cpu" and "llvmpipe" not in kind
        self.pending = Pending(platform != "cpu", self.is_fast)

    @functools.cached_property
    def sync(self) -> Any:
        """The IREE device that runs a program inside the call."""
        self.check_local()
        return _hal_device("local-sync" if self.platform == "cpu" else self._uri)

    @functools.cached_property
    def task(self) -> Any:
        """The IREE device that queues a program and returns."""
        self.check_local()
        return _hal_device("local-task" if self.platform == "cpu" else self._uri)

    def is_of(self, hal_devices: Collection[Any]) -> bool:
        """Whether one of these IREE devices is this device's."""
        mine = vars(self).get("sync"), vars(self).get("task")
        return any(hal is own for own in mine for hal in hal_devices)

    @property
    def is_local(self) -> bool:
        """Whether it is this process's."""
        return self.process_index == _process

    def check_local(self) -> None:
        """RuntimeError where it is another process's."""
        if not self.is_local:
            raise RuntimeError(explain(
                f"{self!r} is a device of process {self.process_index}; this is process "
                f"{_process}, which cannot place arrays there.", "",
                "use local_devices(); multihost_utils exchanges values between processes."))

    @property
    def _uri(self) -> str:
        return f"{self.platform}://{self.index}"

    @property
    def is_host(self) -> bool:
        """True where buffers are ordinary host memory, so that NumPy can look at them."""
        return self.platform == "cpu"

    def addressable_memories(self) -> list[Memory]:
        """The memories by kind: of a CPU also those of hosts, which are the same memory."""
        kinds = ("device", "pinned_host", "unpinned_host") if self.is_host else ("device",)
        return [Memory(self, kind) for kind in kinds]

    @property
    def client(self) -> Any:
        """The platform it is of (extend.backend.Client)."""
        return client_of[0](self.platform)

    def memory_stats(self) -> dict[str, int] | None:
        """Bytes in use by the device's allocator; None: this platform does not count them."""
        return None

    def default_memory(self) -> Memory:
        """The memory of kind 'device'."""
        return Memory(self, "device")

    def memory(self, kind: str) -> Memory:
        """The memory of a kind; DeviceError where there is none."""
        found = next((m for m in self.addressable_memories() if m.kind == kind), None)
        if found is None:
            kinds = ", ".join(m.kind for m in self.addressable_memories())
            raise DeviceError(explain(
                f"Could not find memory addressable by device {self.device_kind}. Device "
                f"{self.device_kind} can address the following memory kinds: {kinds}. Got memory "
                f"kind: {kind}", str(self), "use one of them."))
        return found

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __reduce__(self) -> Any:
        return _by_id, (self.platform, self.id)


@functools.cache
def vm_instance() -> Any:
    """The process's VM instance (immortal, as the devices are)."""
    instance = rt.VmInstance()
    _make_immortal(instance)
    return instance


@functools.cache
def hal_module(hal_device: Any) -> Any:
    """The VM module through which programs reach one IREE device."""
    module = rt.create_hal_module(vm_instance(), hal_device)
    _make_immortal(module)
    return module


def is_queue(hal_device: Any) -> bool:
    """Whether an IREE device queues programs, rather than running them inside the call."""
    return hal_device is not _hal_devices.get("local-sync")


def is_host(hal_device: Any) -> bool:
    """Whether an IREE device's memory is ordinary host memory."""
    return any(hal_device is _hal_devices.get(name) for name in ("local-sync", "local-task"))


@functools.cache
def host_bytes() -> int:
    """The memory that this process may have: the machine's, or its control group's limit."""
    limits = []
    with contextlib.suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text()))
    return min(limits, default=_HOST_BYTES)


idle_memory = Idle(lambda: [_hal_devices[name].allocator for name in _SHARE_OF_HOST
                            if name in _hal_devices])


def trim_occasionally(hal_device: Any) -> None:
    """At every 64th program loaded, give idle blocks back: new programs want new sizes."""
    if next(_loads) % _TRIM_EVERY == 0:
        hal_device.allocator.trim()


def check_not_forked() -> None:
    """Raise, rather than hang, in a child forked after the worker threads were started."""
    if _forked:
        raise DeviceError(explain(
            "this process was forked after its parent had started calque's devices; their worker "
            "threads do not exist here, and a call would wait for ever.",
            f"process {os.getpid()}, child of {os.getppid()}",
            "start workers with multiprocessing.get_context('spawn') (or 'forkserver'), or fork "
            "before the first calque operation."))


def set_cpu_device_count(count: int) -> None:
    """Make `count` logical CPU devices (before the first use of `devices`).

    Args:
      count: how many; they share memory and threads.

    Returns:
      None.

    Raises:
      ValueError: count is less than 1.
      RuntimeError: devices were used already, and were another number.

    Example:
      >>> from calque import runtime
      >>> runtime.set_cpu_device_count(len(runtime.devices("cpu")))
    """
    global _cpu_count
    if count < 1:
        raise ValueError(f"the number of CPU devices must be at least 1, got {count}.")
    with _lock:
        check_cpu_device_count(count)
        _cpu_count = count


def check_cpu_device_count(count: int) -> None:
    """RuntimeError where devices were used already, and were another number."""
    with _lock:
        if _all_devices.cache_info().currsize and count != len(_all_devices("cpu")):
            raise RuntimeError(explain(
                f"cannot make {count} CPU devices: devices were already in use.", "",
                "set the number before the first calque operation (jax_num_cpu_devices, or "
                "XLA_FLAGS)."))


def set_processes(process: int, counts: Sequence[int], gpus: Sequence[int] = (),
                  place: int = 0) -> None:
    """This process is one of several that run a program together (before the first use of devices).

    Args:
      process: its number.
      counts: how many CPU devices each process has.
      gpus: the number on this host of this process's GPU; (): `place`, counted round.
      place: its number among the processes on this host.

    Returns:
      None.

    Raises:
      RuntimeError: devices were used already.

    Example:
      >>> from calque import runtime
      >>> runtime.device.set_processes(0, [1])  # one process, as at the start
      Traceback (most recent call last):
      RuntimeError: devices were used already.
    """
    global _process, _device_counts, _gpus, _place
    with _lock:
        if is_used():
            raise RuntimeError("devices were used already.")
        _process, _device_counts, _gpus, _place = process, list(counts), tuple(gpus), place


def process() -> tuple[int, int]:
    """This process's number, and how many run the program together.

    Returns:
      Two ints.

    Example:
      >>> from calque import runtime
      >>> runtime.device.process()
      (0, 1)
    """
    return _process, len(_device_counts)


def is_used() -> bool:
    """Whether anybody has asked for devices.

    Returns:
      A bool.

    Example:
      >>> from calque import runtime
      >>> runtime.devices() and runtime.device.is_used()
      True
    """
    return _all_devices.cache_info().currsize > 0


def cpu_count() -> int:
    """How many CPU devices this process has, or will have when they are used first.

    Returns:
      An int.

    Example:
      >>> from calque import runtime
      >>> runtime.device.cpu_count() == len(runtime.devices("cpu"))
      True
    """
    return _cpu_count or max([1, *[ask() for ask in asked_count]])


def devices_of_all(platform: str | None = None) -> tuple[Device, ...]:
    """The devices of all processes, in the processes' order: their CPU devices, or a GPU of each.

    Args:
      platform: as in `devices`.

    Returns:
      A tuple of Devices.

    Raises:
      RuntimeError: as `devices`.

    Example:
      >>> from calque import runtime
      >>> runtime.device.devices_of_all()
      (CpuDevice(id=0),)
    """
    if len(_device_counts) == 1:
        return tuple(devices(platform))
    return _of_all(platform or "cpu")


@functools.cache
def _of_all(platform: str) -> tuple[Device, ...]:
    own = devices(platform)
    kind, name = own[0].device_kind, own[0].platform
    return tuple(
        d for p, count in enumerate(_device_counts) for d in (own if p == _process else [
            Device(name, i, kind, process=p) for i in range(count if name == "cpu" else 1)]))


def devices(platform: str | None = None) -> list[Device]:
    """The devices of a platform; without one, CPU devices (GPUs are asked for by name).

    Args:
      platform: 'cpu', 'cuda' (or 'gpu'), 'vulkan'.

    Returns:
      A list of Devices.

    Raises:
      RuntimeError: the platform is unknown, or has no device or driver here.

    Example:
      >>> from calque import runtime
      >>> runtime.devices("cpu")
      [CpuDevice(id=0)]
    """
    with _lock:
        return list(_all_devices(platform or "cpu"))


def default_device() -> Device:
    """The device used where none is named: the first CPU device.

    Returns:
      A Device.

    Raises:
      Nothing.

    Example:
      >>> from calque import runtime
      >>> runtime.default_device()
      CpuDevice(id=0)
    """
    return devices()[0]


@functools.cache
def _all_devices(platform: str) -> tuple[Device, ...]:
    if platform == "cpu":
        kind = _platform.processor() or _platform.machine() or "cpu"
        return tuple(Device("cpu", i, kind) for i in range(cpu_count()))
    if platform in ("gpu", "cuda", "vulkan"):
        return _gpu_devices("cuda" if platform == "gpu" else platform)
    raise RuntimeError(explain(
        f"Unknown backend {platform}: no such platform.", "", "choose cpu, cuda or vulkan."))


def _gpu_devices(platform: str) -> tuple[Device, ...]:
    try:
        found = _driver(platform).query_available_devices()
    except Exception as error:  # IREE raises ValueError, RuntimeError and OSError here
        raise RuntimeError(explain(
            f"Backend '{platform}' failed to initialize: {error}", "",
            "install the driver (libcuda.so, or a Vulkan 1.3 loader and driver).")) from error
    if not found:
        raise RuntimeError(explain(
            f"Backend '{platform}' failed to initialize: no device found.", "",
            "check that the driver sees the device (nvidia-smi, vulkaninfo)."))
    chosen = range(len(found))
    if len(_device_counts) > 1:
        mine = _gpus or (_place % len(found),)
        if len(mine) > 1 or mine[0] >= len(found):
            raise RuntimeError(explain(
                f"local_device_ids={list(mine)}: a process has one {platform} device, and its host "
                f"has {len(found)}.", "",
                "start one process for each, and give one number below that, such as [0]."))
        chosen = range(mine[0], mine[0] + 1)
    return tuple(Device(platform, i, found[i]["name"], str(found[i].get("path", "")))
                 for i in chosen)


def _by_id(platform: str, number: int) -> Device:
    for d in devices_of_all(platform):
        if d.id == number:
            return d
    raise DeviceError(explain(f"there is no device {platform}:{number} here.", "",
                              "unpickle it in a program with as many devices and processes."))


def _hal_device(uri: str) -> Any:
    check_not_forked()
    with _lock:
        device = _hal_devices.get(uri)
        if device is None:
            is_vulkan = uri.startswith("vulkan")
            if is_vulkan and leaving.is_over():
                raise DeviceError(explain(
                    "the process is ending, and its Vulkan devices are gone.", "",
                    "read arrays before, or in a function that was given to atexit after the first "
                    "use of the device."))
            device = _hal_devices[uri] = _create(uri)
            _make_immortal(device)
            if is_vulkan:
                leaving.watch(_opened, hal_module)
        return device


def _create(uri: str) -> Any:
    hidden = {name: os.environ.pop(name) for name in _MPI_VARIABLES if name in os.environ}
    if hidden and "mpi4py" not in __import__("sys").modules:
        # A later `import mpi4py.MPI` needs them; after MPI_Init nothing reads them again.
        os.environ.update(hidden)
        _initialize_mpi()
        hidden = {name: os.environ.pop(name) for name in _MPI_VARIABLES if name in os.environ}
    driver_name, _, index = uri.partition("://")
    driver = _driver(driver_name)
    if driver_name.startswith("local-"):
        cache = _CPU_ALLOCATOR.format(int(host_bytes() * _SHARE_OF_HOST[driver_name]) >> 20)
        return driver.create_default_device(allocators=[cache])
    found = driver.query_available_devices()
    return create_gpu(driver, found[int(index)]["device_id"],
                      cuda_allocators(int(index)) if driver_name == "cuda" else [])


def create_gpu(driver: Any, device_id: int, allocators: Sequence[str]) -> Any:
    """A GPU with the first of these caches that its heaps allow.  (None for Vulkan, whose memory
    comes in sizes that the cache would take for the arrays'.)"""
    for cache in allocators:
        try:
            return driver.create_device(device_id, allocators=[cache])
        except Exception as error:  # IREE raises ValueError, RuntimeError and OSError here
            if "no heap" not in str(error):
                raise
    return driver.create_device(device_id)


def cuda_allocators(index: int) -> list[str]:
    """How IREE keeps a card's memory, the best first."""
    total = cuda.total_memory(index) or _CARD_BYTES
    best = _CUDA_ALLOCATOR.format(int(total * _SHARE_OF_CARD) >> 20)
    return [best, best.partition(",")[0], "caching"]


def _driver(name: str) -> Any:
    if name == "cuda":
        _set_flags()  # read when the driver is made
    return rt.get_driver(name)


@functools.cache
def _set_flags() -> None:
    rt.flags.parse_flags(_CUDA_FLAGS)


def _initialize_mpi() -> None:
    try:
        import mpi4py.MPI  # noqa: F401
    except ImportError:
        pass


def _make_immortal(item: Any) -> None:
    """Take a reference that is never given back: destroying a device under live buffers crashes."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def _opened() -> dict[str, Any]:
    return {} if _forked else _hal_devices


def _give_up(device: Device, hal_devices: Collection[Any]) -> None:
    if device.is_of(hal_devices):
        device.pending.wait()
        device.pending = Pending(True, device.is_fast)
        vars(device).pop("sync", None)
        vars(device).pop("task", None)


leaving.gives_up(Device, _give_up)


def _after_fork_in_child() -> None:
    global _forked
    _forked = bool(_hal_devices)


if hasattr(os, "register_at_fork"):  # (not on Windows)
    os.register_at_fork(after_in_child=_after_fork_in_child)
