"""Array: immutable data on a device plus the time it is there.  Shape and dtype are known at once,
the value when its fence is reached (`block_until_ready`, `np.asarray`, `await`).

An Array may also be *lazy*: recorded by an eager transformation and not yet run; asking for its
buffer runs what was recorded.  Operators and methods are installed by calque.numpy.methods.
Start reading at `Array`.
"""
from __future__ import annotations

import gc
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from calque import runtime
from calque.core import concrete, dtypes
from calque.core.avals import ShapedArray, aval_of, refuse_jax, refuse_masked
from calque.core.config import config
from calque.core.errors import explain
from calque.core.formats import Format, format_of
from calque.core.sharding import Sharding, SingleDeviceSharding
from calque.core.trace import Tracer, escaped_tracer_error
from calque.core.types import Ndarray, Shape
from calque.dispatch import transfers
from calque.lowering.native.exporter import Exporter
from calque.runtime import Buffer, Device

HOST_BYTES = 65536  # values up to this size stay NumPy arrays until a program wants them


class _ArrayMeta(type):
    """isinstance(x, Array) also holds for tracers, which stand for arrays."""

    def __instancecheck__(cls, x: Any) -> bool:
        return type(x) is cls or isinstance(x, Tracer) or issubclass(type(x), cls)


class Array(Exporter, metaclass=_ArrayMeta):
    """A multidimensional array of one dtype on one device.

    Arrays are made by functions of calque.numpy and by transformations, not by this class.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.asarray([1.0, 2.0])
      Array([1., 2.], dtype=float32)
    """

    __slots__ = ("_own", "_pending", "aval", "__weakref__")
    __array_priority__ = 100
    aval: ShapedArray
    _own: Buffer | None
    _pending: Any  # (LazyTrace, Var) while lazy

    def __init__(self, buffer: Buffer | None, aval: ShapedArray, pending: Any = None) -> None:
        self._own, self.aval, self._pending = buffer, aval, pending

    # ---- what is known at once
    @property
    def shape(self) -> Shape:
        """Sizes of the axes.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros((2, 3)).shape
          (2, 3)
        """
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """Element type (a NumPy dtype, or key<fry> for PRNG keys).

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).dtype
          dtype('float32')
        """
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way in promotion, as that of a Python scalar does.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.asarray(1.0).weak_type, jnp.asarray([1.0]).weak_type
          (True, False)
        """
        return self.aval.weak_type

    @property
    def ndim(self) -> int:
        """Number of axes.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros((2, 3)).ndim
          2
        """
        return self.aval.ndim

    @property
    def size(self) -> int:
        """Number of elements.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros((2, 3)).size
          6
        """
        return self.aval.size

    @property
    def nbytes(self) -> int:
        """Bytes of the data.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros((2, 3)).nbytes
          24
        """
        return self.aval.nbytes

    @property
    def itemsize(self) -> int:
        """Bytes of one element.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros((2, 3)).itemsize
          4
        """
        return int(self.aval.dtype.itemsize)

    # ---- the value
    @property
    def _buffer(self) -> Buffer:
        if self._pending is not None:
            self._pending[0].flush()
        buffer = self._own
        if buffer is None:
            raise RuntimeError(explain(f"Array has been deleted: it was {self.aval}."))
        return buffer

    # as it lies: of arrays that are not row-major (laid.LaidArray) another one than `_buffer`
    _memory = _buffer

    def _row_major(self) -> Array:
        return self

    def _numpy(self) -> Ndarray:
        """The value as a read-only NumPy array (no copy on the CPU); keys as their words."""
        if self.aval.dtype == dtypes.float0:  # (in memory it is False: lowering.context.physical)
            return np.zeros(self.aval.shape, dtypes.float0)
        buffer = self._buffer
        if config.guards and not buffer.device.is_host:
            transfers.check("device_to_host", self)
        return buffer.numpy()

    def _content(self) -> bytes | None:
        """The bytes of a value that is from NumPy."""
        held = None if self._pending is not None or self._own is None else self._own.held
        return None if held is None else held.tobytes()

    def concrete(self) -> Array:
        """The array itself; of a tracer, the array behind it or None.

        Example:
          >>> import calque.numpy as jnp
          >>> x = jnp.zeros(2)
          >>> x.concrete() is x
          True
        """
        return self

    def block_until_ready(self) -> Array:
        """Wait until the value is there, raise what went wrong, return the array.

        Returns:
          The array.

        Raises:
          JaxRuntimeError: the computation failed.
          RuntimeError: the array was deleted or donated.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).block_until_ready()
          Array([0., 0.], dtype=float32)
        """
        self._memory.wait()
        return self

    def is_ready(self) -> bool:
        """Whether the value is there, without waiting.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).block_until_ready().is_ready()
          True
        """
        return self._memory.is_ready()

    def copy_to_host_async(self) -> None:
        """Start what np.asarray will need; on the CPU the data is in host memory already.

        Example:
          >>> import calque.numpy as jnp, numpy as np
          >>> x = jnp.zeros(2)
          >>> x.copy_to_host_async()
          >>> np.asarray(x)
          array([0., 0.], dtype=float32)
        """
        _ = self._memory

    def __await__(self) -> Generator[Any, None, Array]:
        """`await x`: the event loop runs on while the device works.

        Example:
          >>> import asyncio, calque.numpy as jnp
          >>> async def main():
          ...     return await jnp.zeros(2)
          >>> asyncio.run(main())
          Array([0., 0.], dtype=float32)
        """
        return self._await().__await__()

    async def _await(self) -> Array:
        buffer = self._memory
        if not buffer.is_ready():
            import asyncio  # (a twentieth of what `import calque` takes)
            await asyncio.get_running_loop().run_in_executor(None, buffer.wait)
        buffer.wait()
        return self

    def delete(self) -> None:
        """Free the memory now; using the array afterwards is an error.

        Example:
          >>> import calque.numpy as jnp
          >>> x = jnp.zeros(2)
          >>> x.delete()
          >>> x.is_deleted()
          True
        """
        self._memory.delete()

    def is_deleted(self) -> bool:
        """Whether the array was deleted or donated.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).is_deleted()
          False
        """
        return self._pending is None and self._memory.is_deleted()

    # ---- where it is
    def devices(self) -> set[Device]:
        """The devices that hold the data.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).devices()
          {CpuDevice(id=0)}
        """
        sharding = self.aval.placement
        return {self._memory.device} if sharding is None else sharding.device_set

    @property
    def device(self) -> Any:
        """The device that holds the data; of an array spread over several, its sharding.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).device
          CpuDevice(id=0)
        """
        sharding = self.aval.placement
        if sharding is None:
            return self._memory.device
        return sharding._device if isinstance(sharding, SingleDeviceSharding) else sharding

    @property
    def sharding(self) -> Sharding:
        """How the array is spread over devices.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).sharding
          SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
        """
        found = self.aval.placement
        return SingleDeviceSharding(self._memory.device) if found is None else found

    @property
    def format(self) -> Format:
        """How it lies in memory, and its sharding.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).format.layout.major_to_minor
          (0,)
        """
        return format_of(self.ndim, self.sharding)

    @property
    def committed(self) -> bool:
        """Whether the array was put on its devices explicitly, or computed from one that was.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.zeros(2).committed
          False
        """
        return self.aval.placement is not None

    __hash__ = None  # type: ignore[assignment]

    # ---- conversion to other worlds
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Ndarray:
        if dtypes.is_key(self.dtype):
            raise TypeError("JAX array with PRNGKey dtype cannot be converted to a NumPy array. "
                            "Use jax.random.key_data(arr) if you wish to extract the underlying "
                            "integer array.")
        value = self._numpy()
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError("__array__: a copy is needed to change the dtype")
            return value.astype(dtype)
        return value.copy() if copy else value

    def __buffer__(self, flags: int) -> memoryview:  # (also of Python 3.11: Exporter)
        value = self.__array__()
        try:
            return memoryview(value)
        except ValueError:  # the protocol has no letter for this dtype
            name = dtypes.short_name(value.dtype).upper()
            raise BufferError(explain(
                f"Buffers of type {name} are not supported by the Python buffer protocol.",
                fix="memoryview(np.asarray(x).view(np.uint8)) has the bytes.")) from None

    def __bytes__(self) -> bytes:
        return self.__array__().tobytes()

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AttributeError("__cuda_array_interface__ is only defined for JAX's GPU buffers.\n"
                             "  Fix: use __dlpack__.")

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        return self._buffer.__dlpack__(stream=stream, max_version=max_version,
                                       dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._buffer.__dlpack_device__()

    def item(self, *args: int) -> Any:
        """The one element (or the one at an index) as a Python scalar.

        Args:
          *args: nothing, a position in row-major order, or one index per axis.

        Returns:
          A Python bool, int, float or complex.

        Raises:
          ValueError: the array has several elements and no index is given.
          IndexError: the index is outside the array.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.asarray([1.5, 2.5]).item(1)
          2.5
        """
        return self._numpy().item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python scalars.

        Example:
          >>> import calque.numpy as jnp
          >>> jnp.asarray([[1, 2], [3, 4]]).tolist()
          [[1, 2], [3, 4]]
        """
        if dtypes.is_key(self.dtype):
            raise AttributeError("a key array has no attribute 'tolist'; random.key_data(key) has.")
        return self._numpy().tolist()

    def __bool__(self) -> bool:
        if dtypes.is_key(self.dtype):
            raise TypeError(explain("key array cannot be converted to boolean.",
                                    fix="compare what random.key_data gives."))
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if not dtypes.is_integer(self.dtype) or self.shape:
            raise TypeError("Only integer scalar arrays can be converted to a scalar index.")
        return int(self._numpy())

    def _scalar(self, kind: str) -> Any:
        value = self._numpy()
        if kind == "bool":
            if value.size != 1:
                what = "an empty array" if not value.size else "an array with more than one element"
                raise ValueError(explain(
                    f"The truth value of {what} is ambiguous.", fix="use x.any() or x.all()."))
            return value.reshape(())[()]
        if value.ndim:
            raise TypeError(explain(
                f"Only scalar arrays can be converted to Python scalars; got arr.ndim={value.ndim}",
                fix="index the element you mean, or use x.item()."))
        if kind != "complex" and value.dtype.kind == "c":  # (NumPy drops what is imaginary)
            raise TypeError(explain(
                f"{kind}() argument must be a string or a real number, not 'complex'",
                fix="take x.real, or complex(x)."))
        return value[()].astype(complex) if kind == "complex" else value[()]

    def __format__(self, spec: str) -> str:
        whole = self.ndim > 0 or dtypes.is_key(self.dtype)
        return format(str(self), spec) if whole else format(self._numpy()[()], spec)

    def __str__(self) -> str:
        if dtypes.is_key(self.dtype):
            return repr(self)
        return str(self._numpy())

    def __repr__(self) -> str:
        if dtypes.is_key(self.dtype):
            return f"Array({self.shape}, dtype={self.dtype.name}) overlaying:\n{self._numpy()}"
        return array_repr(self._numpy(), self.weak_type)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __reduce__(self) -> Any:
        return _unpickle, (np.asarray(self._numpy()), self.weak_type, self._key_impl(),
                           self.aval.placement)

    def __copy__(self) -> Array:
        return Array(self._buffer.with_shape(self._buffer.shape), self.aval)

    def __deepcopy__(self, memo: Any) -> Array:
        return _unpickle(self._numpy(), self.weak_type, self._key_impl(), self.aval.placement)

    def _key_impl(self) -> str:
        return self.dtype.impl if dtypes.is_key(self.dtype) else ""


def array_repr(value: Ndarray, weak: bool) -> str:
    """JAX's form: Array([1., 2.], dtype=float32)."""
    tail = f"dtype={value.dtype.name}" + (", weak_type=True" if weak else "") + ")"
    prefix = "Array("
    width = np.get_printoptions()["linewidth"]
    if value.size:
        body = np.array2string(value, prefix=prefix, suffix=",", separator=", ",
                               max_line_width=width)
    else:
        body = f"[], shape={value.shape}"
    last = len(body) - (body.rfind("\n") + 1)
    if body.rfind("\n") < 0:
        last += len(prefix)
    sep = " " if last + len(tail) + 2 <= width else "\n" + " " * len(prefix)
    return f"{prefix}{body},{sep}{tail}"


def _unpickle(value: Ndarray, weak: bool, impl: str, sharding: Any = None) -> Array:
    made = from_numpy(value, weak)
    aval = made.aval
    if impl:
        aval = ShapedArray(value.shape[:-1], dtypes.key_dtype_of(impl))
    return Array(made._buffer, aval.marked(sharding))


# ---- making arrays
def current_device() -> Device:
    """The device new arrays go to: jax_default_device, else the first of jax_platforms', else the
    first one."""
    from_config = dtypes.config.jax_default_device
    if from_config is None:
        platform = platform_named()
        return runtime.devices(platform)[0] if platform else runtime.default_device()
    if isinstance(from_config, str):
        return runtime.devices(from_config)[0]
    return from_config  # type: ignore[no-any-return]


def platform_named() -> str | None:
    """The first platform of jax_platforms (JAX_PLATFORMS), else jax_platform_name; None where
    neither is set."""
    listed = dtypes.config.jax_platforms or dtypes.config.jax_platform_name
    return str(listed).split(",")[0].strip() if listed else None


def from_numpy(value: Any, weak: bool = False, device: Device | None = None,
               alias: bool = False) -> Array:
    """A copy of a NumPy array on the device (aligned host memory is shared with alias=True)."""
    refuse_masked(value)
    array = np.asarray(value)
    if config.guards:
        transfers.check("host_to_device", array)
    dtype = dtypes.canonical(array.dtype)
    if dtype == dtypes.float0:
        array = np.zeros(array.shape, bool)
    elif dtype != array.dtype:
        array = array.astype(dtype)
    device = device or current_device()
    if alias:
        buffer = Buffer.alias_numpy(array, device)
    elif array.nbytes <= HOST_BYTES:  # eager operations on it are NumPy's (numpy_rules)
        buffer = Buffer.of_host(np.array(array, order="C"), device)
    else:
        buffer = Buffer.from_numpy(array, device)
    return Array(buffer, ShapedArray(array.shape, dtype, weak))


def from_scalar(value: Any) -> Array:
    """A rank-0 array of a Python or NumPy scalar, with memory of its own."""
    aval = aval_of(value)
    if config.guards:
        transfers.check("host_to_device", value)
    if isinstance(value, Tracer):
        raise escaped_tracer_error(value, "an argument")
    refuse_jax("calque", value, "as an array")
    if hasattr(value, "aval"):
        raise TypeError(explain(
            f"A {type(value).__name__} does not have a value and cannot be used as a constant in a "
            f"JAX function: {value!r}.", fix="pass an array."))
    try:
        made = np.array(dtypes.plain_number(value), aval.dtype)
    except OverflowError:
        raise OverflowError(explain(
            f"Python int {value} too large to convert to {aval.dtype}.",
            fix="pass an array of a wider dtype, or enable x64.")) from None
    return Array(Buffer.of_host(made, current_device()), aval)


def to_array(x: Any) -> Array:
    """Any array-like outside a trace as a row-major Array (concrete values only)."""
    if type(x) is Array:
        return x
    if isinstance(x, np.ndarray):
        return from_numpy(x)
    return x._row_major() if issubclass(type(x), Array) else from_scalar(x)  # (other classes of it)


def on_device(x: Any, device: Device) -> Buffer:
    """The buffer of an array-like on a device, copied there when it is elsewhere."""
    buffer = (to_array(x) if isinstance(x, Array) else transfers.explicit(
        lambda: to_array(x), "ours"))._buffer
    if config.guards and buffer.device is not device:
        transfers.check("device_to_device", x)
    return buffer if buffer.device is device else Buffer.from_numpy(buffer.numpy(), device)


def on_one(leaves: Sequence[Any], buffers: Sequence[Buffer]) -> tuple[Device, list[Buffer]]:
    """The device of a call whose arguments lie on several, and its arguments there: committed ones
    stay (they are on one, or tracing said so), the others move."""
    device = next((b.device for x, b in zip(leaves, buffers)
                   if isinstance(x, Array) and x.aval.placement is not None), buffers[0].device)
    for x, b in zip(leaves, buffers) if config.guards else ():
        if b.device is not device:
            transfers.check("device_to_device", x)
    return device, [b if b.device is device or (b.device.is_host and device.is_host)
                    else Buffer.from_numpy(b.numpy(), device) for b in buffers]


def as_values(leaves: Sequence[Any]) -> list[Any]:
    """Leaves as arrays or tracers (numbers become weak arrays: their values are not baked in)."""
    return [x if isinstance(x, (Array, Tracer)) else to_array(x) for x in leaves]


def live_arrays() -> list[Array]:
    """All arrays that hold memory now.

    Returns:
      A list of Arrays: not those that are deleted, donated or not yet computed.

    Raises:
      Nothing.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> x = jnp.asarray([1.0, 2.0])
      >>> any(a is x for a in calque.live_arrays())
      True
    """
    return [x for x in gc.get_objects()
            if issubclass(type(x), Array) and x._pending is None and not _is_gone(x)]


def _is_gone(x: Array) -> bool:
    """Whether an array has no memory."""
    return x._own is None and type(x)._memory is Array._memory or x._memory.is_deleted()


concrete.install(Array)
