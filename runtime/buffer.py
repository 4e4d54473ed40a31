"""Buffers: typed memory on a device whose value may still be on its way.

A `Buffer` is an IREE buffer view, its NumPy shape and dtype, and a fence: None when the value is
there, else the semaphore that reaches 1 when the producer is done.  Programs give and take views
as references (`ref`): IREE's object behind one costs twice as much, and is made for who reads the
value on the host.  A value that NumPy computed (`Buffer.of_host`) gets one when a program takes it.
IREE's queues keep the memory of running calls alive, so nothing here has to.  Memory shared by
several Buffers or seen by NumPy is tracked in `_Sharing`, because only memory nobody else can see
may be donated.
Start reading at `Buffer.from_numpy`, then `numpy`, then `hand_over`.
"""
from __future__ import annotations

import math
import weakref
from collections.abc import Collection
from typing import Any

import iree.runtime as rt
import numpy as np

from calque.runtime import dlpack, leaving
from calque.runtime.device import Device, check_not_forked, idle_memory
from calque.runtime.dtypes import carrier, dtype_of, element_type
from calque.runtime.errors import DeletedBufferError, deleted_error, device_error, is_exhausted
from calque.runtime.idle import LARGE
from calque.runtime.memory import DEVICE_LOCAL, HOST_USAGE, allocate
from calque.runtime.pending import is_over, wait_for
from calque.runtime.staging import fetched, sent
from calque.runtime.watch import span, watchers

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

ALIGNMENT = 64  # generated code uses aligned vector loads; anything less crashes
_create_fence = rt.HalFence.create_at


class _Sharing:
    """Who else can see one allocation: other Buffers, and NumPy arrays over its memory."""

    __slots__ = ("arrays", "buffers", "readers")

    def __init__(self) -> None:
        self.buffers: list[weakref.ref[Buffer]] = []
        self.readers: list[Any] = []
        self.arrays: list[weakref.ref[Array]] = []

    def join(self, buffer: Buffer) -> None:
        self.buffers = [r for r in self.buffers if r() is not None]
        self.buffers.append(weakref.ref(buffer))
        self.readers += buffer._readers or []
        buffer._readers = self.readers
        buffer._sharing = self

    def expose(self, array: Array) -> None:
        self.arrays = [r for r in self.arrays if r() is not None]
        self.arrays.append(weakref.ref(array))

    def has_arrays(self) -> bool:
        return any(r() is not None for r in self.arrays)

    def has_others(self, buffer: Buffer) -> bool:
        others = (r() for r in self.buffers)
        return any(o is not None and o is not buffer and not o.is_deleted() for o in others)


class Buffer:
    """Typed device memory and the fence behind which its value is.

    Buffers are made by `Buffer.from_numpy`, `Buffer.alias_numpy`, `from_dlpack` and programs.

    Args:
      ref: IREE's buffer view, or a reference to one.
      shape: sizes of the axes.
      dtype: NumPy dtype of the elements.
      device: where the memory is.
      fence: semaphore that reaches 1 when the value is there; None: it is.
      owned: False for memory that calque did not allocate (such memory is never donated).

    Example:
      >>> import numpy as np
      >>> from calque import runtime
      >>> buffer = runtime.Buffer.from_numpy(np.arange(3), runtime.default_device())
      >>> buffer, buffer.nbytes, buffer.numpy()
      (Buffer(int64[3], cpu:0, ready), 24, array([0, 1, 2]))
    """

    __slots__ = ("__weakref__", "_base", "_host", "_readers", "_sharing", "device",
                 "dtype", "fence", "owned", "ref", "shape")

    ref: Any  # HalBufferView or VmRef; None once deleted, and of _host until a program takes it
    _host: Array | None  # the value, where NumPy computed it
    fence: Any  # None when the value is there, else the HalSemaphore that will reach 1
    owned: bool
    _sharing: _Sharing | None
    _base: weakref.ref[Array] | None
    _readers: list[Any] | None  # semaphores of queued programs that read the memory

    def __init__(self, ref: Any, shape: Shape, dtype: np.dtype[Any], device: Device,
                 fence: Any = None, owned: bool = True) -> None:
        self.ref = ref
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.fence = fence
        self.owned = owned
        self._host = self._sharing = self._base = self._readers = None

    def taken(self) -> Any:
        """The reference that a program takes; DeletedBufferError if there is none."""
        if self.ref is None:
            self.check_alive()
            assert self._host is not None
            self.ref, self.fence = _copied(self._host, self.device)
        return self.ref

    @property
    def view(self) -> Any:
        """IREE's buffer view."""
        ref = self.taken()
        if type(ref) is not rt.HalBufferView:
            self.ref = ref = ref.deref(rt.HalBufferView)
        return ref

    # ---- construction

    @staticmethod
    def from_numpy(array: Array, device: Device) -> Buffer:
        """A buffer with a copy of `array` (any strides; the source may change right after).  A
        GPU's may be on its way there."""
        array = np.asarray(array)
        view, fence = _copied(array, device)
        return Buffer(view, array.shape, array.dtype, device, fence)

    @staticmethod
    def of_host(array: Array, device: Device) -> Buffer:
        """A buffer of a C-contiguous array that nobody will write to (IREE sees a copy of it)."""
        made = Buffer.__new__(Buffer)
        array.flags.writeable = False
        made._host, made.owned = array, True
        made.shape, made.dtype, made.device = array.shape, array.dtype, device
        made.ref = made.fence = made._sharing = made._base = made._readers = None
        return made

    @staticmethod
    def alias_numpy(array: Array, device: Device) -> Buffer:
        """A buffer over NumPy's own memory where that is possible, else a copy.

        Possible on the CPU for C-contiguous, 64-byte aligned memory.  Read-only memory is welcome:
        programs write to donated arguments only, and memory that is not ours is never donated.
        """
        element = element_type(array.dtype)
        check_not_forked()
        if not (device.is_host and array.nbytes and array.flags.c_contiguous
                and array.ctypes.data % ALIGNMENT == 0):
            return Buffer.from_numpy(array, device)
        # DLPack, because import_host_allocation does not keep its source alive; this does, until
        # the last queued call that reads the memory is over.
        raw = _writable_bytes(array)
        memory = device.sync.from_dlpack_capsule(raw.__dlpack__()).get_buffer()
        view = rt.HalBufferView(memory, array.shape, element)
        return Buffer(view, array.shape, array.dtype, device, owned=False)

    # ---- state

    @property
    def nbytes(self) -> int:
        """Size of the value in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def is_deleted(self) -> bool:
        """True after `delete()` and after donation."""
        return self._host is None and self.ref is None

    def is_ready(self) -> bool:
        """True when the value is there (False for one whose computation failed)."""
        fence = self.fence
        if fence is None:
            return True
        try:
            if fence.query() < 1:
                return False
        except RuntimeError:
            return False
        self.fence = None
        return True

    def is_settled(self) -> bool:
        """True when waiting would return, or raise, at once."""
        fence = self.fence
        try:
            return fence is None or fence.query() >= 1
        except RuntimeError:
            return True

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the value; TimeoutError after `timeout_s`, DeviceError if its program failed."""
        self.check_alive()
        fence = self.fence
        if fence is None:
            return
        wait_for(fence, timeout_s, f"waiting for a {self._describe()} on {self.device}",
                 self.device.is_fast)
        self.fence = None

    def check_alive(self) -> None:
        """Raise DeletedBufferError if the buffer was deleted or donated."""
        if self.is_deleted():
            raise self.deleted_error()

    def deleted_error(self) -> DeletedBufferError:
        """The error that a use of this deleted buffer raises."""
        return deleted_error(self.shape, self.dtype)

    def delete(self) -> None:
        """Give the memory up (it is freed when running calls and NumPy views let go of it)."""
        self.ref = self.fence = self._host = None

    def has_views(self) -> bool:
        """True while a NumPy array, memoryview or DLPack export over the memory lives."""
        if self._sharing is not None:
            return self._sharing.has_arrays()
        return self._base is not None and self._base() is not None

    # ---- the value on the host

    @property
    def held(self) -> Array | None:
        """The value that NumPy computed; None where it did not."""
        return self._host

    def numpy(self) -> Array:
        """The value as a read-only array: over the buffer's memory on the CPU, else a copy."""
        if self._host is not None:
            return self._host.view()  # whoever owns memory may make it writable again; not a view
        self.wait()
        if not self.device.is_host:
            return self._fetch()
        base = None if self._base is None else self._base()
        if base is None:
            base = self._map()
            self._base = weakref.ref(base)
            if self._sharing is not None:
                self._sharing.expose(base)
        # NumPy makes `base`, a flat array, the base of every view of views: while it lives, one
        # of them does.  (It collapses chains of plain ndarrays, so a shaped one would not do.)
        return base.reshape(self.shape)

    def _map(self) -> Array:
        if not self.nbytes:
            empty = np.empty(0, self.dtype)
            empty.flags.writeable = False
            return empty
        # frombuffer keeps the read-only memoryview; ndarray(buffer=...) would look behind it.
        return np.frombuffer(memoryview(self.view.map()).toreadonly(), self.dtype)

    def _fetch(self) -> Array:
        value = np.empty(self.shape, self.dtype)
        if self.nbytes:
            with span(f"copy from {self.device}", "transfer", bytes=self.nbytes):
                fetched(self.device.task, self.view.get_buffer(), value,
                        f"copying a {self._describe()} from {self.device}", self.device.is_fast)
        value.flags.writeable = False
        return value

    # ---- sharing and donation

    def with_shape(self, shape: Shape) -> Buffer:
        """The same memory and fence under another shape of the same size (no copy)."""
        self.check_alive()
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"cannot reshape {self._describe()} into shape {shape}.")
        if self._host is not None:
            return Buffer.of_host(self._host.reshape(shape), self.device)
        view = rt.HalBufferView(self.view.get_buffer(), shape, element_type(self.dtype))
        other = Buffer(view, shape, self.dtype, self.device, self.fence, self.owned)
        self.share_with(other)
        return other

    def share_with(self, other: Buffer) -> None:
        """Note that two buffers have one allocation, so that neither is donated in place."""
        sharing = self._sharing or other._sharing
        if sharing is None:
            sharing = _Sharing()
        for buffer in (self, other):
            old = buffer._sharing
            if old is sharing:
                continue
            if old is None:
                sharing.join(buffer)
                base = None if buffer._base is None else buffer._base()
                if base is not None:
                    sharing.expose(base)
            else:
                _merge(old, sharing)
        self.owned = other.owned = self.owned and other.owned

    def may_donate(self) -> bool:
        """True where a program may overwrite the memory: calque's own and nobody else sees it."""
        if not self.owned or self.has_views():
            return False
        return self._sharing is None or not self._sharing.has_others(self)

    def is_alone(self) -> bool:
        """True where the value is there, and nobody but its holder has ever seen the memory."""
        return (self.fence is None and self._sharing is None and self._base is None
                and self._readers is None and self.owned and not self.is_deleted())

    def note_reader(self, semaphore: Any) -> None:
        """Remember a queued program that reads the memory, until it is done."""
        readers = self._readers
        if readers is None:
            self._readers = [semaphore]
        elif readers and readers[-1] is semaphore:  # f(x, x)
            return
        else:
            readers.append(semaphore)
            # Looking at 16, 32, 64, ... entries only: a constant cost per call, however many
            # programs are under way at once.
            size = len(readers)
            if size >= 16 and size & (size - 1) == 0:
                readers[:] = [s for s in readers if not is_over(s)]

    def hand_over(self) -> tuple[Any, list[Any]]:
        """(reference, semaphores) for a program that may overwrite the memory; deletes this buffer.

        The memory itself where `may_donate`, else a copy.  The program must wait for the
        semaphores: the value's own, and those of queued programs that still read the old value.
        """
        self.check_alive()
        if self.may_donate():
            source, waits = self, [s for s in self._readers or () if not is_over(s)]
        else:
            source, waits = self.copy(), []
        ref = source.taken()  # (asked for first: it may bring a fence)
        if source.fence is not None:
            waits.append(source.fence)
        self.delete()
        return ref, waits

    def copy(self) -> Buffer:
        """A copy on the same device; it waits for this value on the device, not on the host."""
        self.check_alive()
        if self.device.is_host and self.is_ready():
            return Buffer.from_numpy(self._map().reshape(self.shape), self.device)
        check_not_forked()
        hal, view = self.device.task, self.view
        target = allocate(self.device, self.nbytes, f"copying a {self._describe()}")
        done = hal.create_semaphore(0)
        wait = rt.HalFence(0) if self.fence is None else _create_fence(self.fence, 1)
        if self.nbytes:
            with span(f"copy on {self.device}", "queue", bytes=self.nbytes) as watched:
                hal.queue_copy(view.get_buffer(), target, wait, _create_fence(done, 1))
                watched.queued(self.device, done, [] if self.fence is None else [self.fence])
            self.note_reader(done)
        view = rt.HalBufferView(target, self.shape, element_type(self.dtype))
        return Buffer(view, self.shape, self.dtype, self.device, done if self.nbytes else None)

    def _describe(self) -> str:
        return f"{self.dtype}[{','.join(str(d) for d in self.shape)}]"

    def __repr__(self) -> str:
        state = "deleted" if self.is_deleted() else "ready" if self.is_ready() else "pending"
        return f"Buffer({self._describe()}, {self.device}, {state})"

    # ---- what NumPy and others ask for

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        make = np.array if copy else np.asarray
        return make(self.numpy(), dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return dlpack_capsule(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _give_up(buffer: Buffer, hal_devices: Collection[Any]) -> None:
    if buffer.device.is_of(hal_devices):
        buffer.delete()
        buffer._readers = buffer._sharing = None


leaving.gives_up(Buffer, _give_up)


def _copied(array: Array, device: Device) -> tuple[Any, Any]:
    """A view over a copy of an array in the device's memory, and the fence behind which it is."""
    if watchers:
        with span(f"copy to {device}", "transfer", bytes=array.nbytes):
            return _copy(array, device)
    return _copy(array, device)


def _copy(array: Array, device: Device) -> tuple[Any, Any]:
    element = element_type(array.dtype)
    check_not_forked()
    source = array if array.flags.c_contiguous else array.copy(order="C")
    if (kind := carrier(array.dtype)) is not array.dtype:
        source = source.view(kind)
    if not device.is_host:
        return _sent(source, element, device)
    try:
        view = _on_host(source, element, device)
        if source.nbytes >= LARGE:
            idle_memory.note(source.nbytes)
        return view, None
    except (RuntimeError, MemoryError) as error:
        if not is_exhausted(error):
            raise device_error(error, f"copying {_describe(array)} to {device}") from error
    idle_memory.give_back()  # blocks of other sizes
    try:
        return _on_host(source, element, device), None
    except (RuntimeError, MemoryError) as error:
        raise device_error(error, f"copying {_describe(array)} to {device}") from error


def _on_host(source: Array, element: Any, device: Device) -> Any:
    hal = device.sync
    if source.dtype.kind in "bc":  # the binding sizes these by its own table: go as bytes
        raw = source.reshape(-1).view(np.uint8)
        bytes_view = hal.allocator.allocate_buffer_copy(
            DEVICE_LOCAL, HOST_USAGE, hal, raw, rt.HalElementType.UINT_8)
        return rt.HalBufferView(bytes_view.get_buffer(), source.shape, element)
    return hal.allocator.allocate_buffer_copy(DEVICE_LOCAL, HOST_USAGE, hal, source, element)


def _sent(source: Array, element: Any, device: Device) -> tuple[Any, Any]:
    """The same in memory that the host does not see: it is there when the fence is reached."""
    where = f"copying {_describe(source)} to {device}"
    memory = allocate(device, source.nbytes, where)
    view = rt.HalBufferView(memory, source.shape, element)
    if not source.nbytes:
        return view, None
    device.pending.make_room(0, source.nbytes)
    try:
        done = sent(device.task, source, memory)
    except (RuntimeError, MemoryError) as error:
        raise device_error(error, where) from error
    device.pending.add(done, 0, source.nbytes)
    return view, done


def dlpack_capsule(buffer: Buffer, **options: Any) -> Any:
    """A DLPack capsule over the buffer's memory (it counts as a view while it lives).

    Args:
      buffer: a Buffer; its value is waited for.
      **options: of the protocol: stream, max_version, dl_device, copy.

    Returns:
      A capsule, for the consumer's from_dlpack.

    Raises:
      DeletedBufferError: the buffer was deleted or donated.
      DeviceError: the program that computes it failed.

    Example:
      >>> import numpy as np
      >>> from calque import runtime
      >>> buffer = runtime.Buffer.from_numpy(np.ones(2), runtime.default_device())
      >>> type(runtime.dlpack_capsule(buffer)).__name__
      'PyCapsule'
    """
    return dlpack.capsule_of(buffer.numpy(), options)


def from_dlpack(source: Any, device: Device) -> Buffer:
    """A buffer over memory offered through DLPack (zero-copy where `alias_numpy` is).

    Args:
      source: an object with __dlpack__ and __dlpack_device__, in host memory; of any dtype that
        DLPack has a code for (bfloat16 and float8 are among them).
      device: where the buffer goes.

    Returns:
      A Buffer.

    Raises:
      AttributeError: the object offers no DLPack.
      BufferError: the memory is not the host's.

    Example:
      >>> import numpy as np
      >>> from calque import runtime
      >>> runtime.from_dlpack(np.arange(3.0), runtime.default_device())
      Buffer(float64[3], cpu:0, ready)
    """
    return Buffer.alias_numpy(dlpack.as_numpy(source), device)


def wrap_view(view: Any, device: Device, fence: Any = None) -> Buffer:
    """A Buffer over a view that a program returned, its shape and dtype read from the view."""
    return Buffer(view, tuple(view.shape), dtype_of(view.element_type), device, fence)


def _merge(old: _Sharing, new: _Sharing) -> None:
    for reference in old.buffers:
        member = reference()
        if member is not None:
            new.join(member)
    new.arrays += old.arrays


def _writable_bytes(array: Array) -> Array:
    return dlpack.writable(array.view(np.ndarray)).reshape(-1).view(np.uint8)


def _describe(array: Array) -> str:
    return f"{array.dtype}[{','.join(str(d) for d in array.shape)}]"
