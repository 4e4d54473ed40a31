"""Handlers of XLA's typed FFI: functions in shared libraries that were compiled with its headers.

A handler is `XLA_FFI_Error *handler(XLA_FFI_CallFrame *)`.  The frame holds the arrays, the
attributes and a table of functions that the handler may call (errors, memory, tasks, its state);
`xla/ffi/api/c_api.h` of jaxlib's wheel says how each lies in memory, and the classes here say the
same to ctypes.  A handler runs without Python's lock.  Start reading at `Site`.
"""
from __future__ import annotations

import ctypes
import itertools
import math
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from calque.runtime.errors import DeviceError

P, SIZE, I32, I64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int64
_ALIGNMENT = 64  # bytes; XLA's arrays begin at such addresses, and vector code relies on it
INSTANTIATE, PREPARE, INITIALIZE, EXECUTE = range(4)
_BUFFER = 1  # what an argument and a result is
_ARRAY, _DICTIONARY, _SCALAR, _STRING = 1, 2, 3, 4  # and an attribute
_INVALID, _NOT_FOUND, _UNIMPLEMENTED = 3, 5, 12  # codes of errors
_MAJOR, _MINOR = 0, 3  # the interface's version
_DTYPES = {np.dtype(d): n for n, d in {
    1: bool, 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8", 10: "f2",
    11: "f4", 12: "f8", 15: "c8", 16: ml_dtypes.bfloat16, 18: "c16", 19: ml_dtypes.float8_e5m2,
    20: ml_dtypes.float8_e4m3fn, 23: ml_dtypes.float8_e4m3b11fnuz,
    24: ml_dtypes.float8_e5m2fnuz, 25: ml_dtypes.float8_e4m3fnuz, 28: ml_dtypes.float8_e4m3,
    29: ml_dtypes.float8_e3m4, 33: ml_dtypes.float8_e8m0fnu}.items()}

Frozen = tuple[Any, ...]  # an attribute: its kind, then its dtype and bytes, or its parts


class _Struct(ctypes.Structure):
    """A structure of the interface: they all begin with their size and a list of extensions."""

    _fields_ = [("size", SIZE), ("extension", P)]


def _struct(name: str, /, **fields: Any) -> Any:
    return type(name, (_Struct,), {"_fields_": list(fields.items()), "__doc__": f"{name}."})


class _Span(ctypes.Structure):
    """A text that need not end with 0."""

    _fields_ = [("at", P), ("length", SIZE)]


class _Scalar(ctypes.Structure):
    _fields_ = [("dtype", I32), ("at", P)]


class _Dense(ctypes.Structure):
    _fields_ = [("dtype", I32), ("count", SIZE), ("at", P)]


class _Extension(ctypes.Structure):
    _fields_ = [("size", SIZE), ("kind", I32), ("next", P), ("metadata", P)]


_Version = _struct("Version", major=I32, minor=I32)


class _Metadata(ctypes.Structure):
    _fields_ = [("size", SIZE), ("version", _Version), ("traits", ctypes.c_uint32),
                ("state", I64), ("more", I64 * 4)]


_Buffer = _struct("Buffer", dtype=I32, data=P, rank=I64, dims=P)
_List = _struct("List", count=I64, kinds=P, items=P)
_Attributes = _struct("Attributes", count=I64, kinds=P, names=P, items=P)
_FRAME_SIZE, _METADATA_SIZE = 168, 36  # as far as every version knows them
_ErrorCreate = _struct("ErrorCreate", message=ctypes.c_char_p, code=I32)
_ErrorMessage = _struct("ErrorMessage", error=P, message=P)
_OneHandle = _struct("OneHandle", handle=P)
_Two = _struct("Two", first=P, second=P)
_TypeRegister = _struct("TypeRegister", name=_Span, type_id=P, info=P)
_Get = _struct("Get", context=P, type_id=P, data=P)
_Staged = _struct("Staged", context=P, stage=I32, type_id=P, data=P)
_Allocate = _struct("Allocate", context=P, bytes=SIZE, alignment=SIZE, data=P)
_Free = _struct("Free", context=P, bytes=SIZE, data=P)
_Schedule = _struct("Schedule", context=P, task=P, data=P)
_TypeInfo = _struct("TypeInfo", deleter=P)

Handler = ctypes.CFUNCTYPE(P, P)
_Task = ctypes.CFUNCTYPE(None, P)  # (also what ends a state)
_numbers = itertools.count(1)  # of errors, futures, contexts and types
_errors: dict[int, tuple[int, Any]] = {}  # code and message
_deleters: dict[int, int] = {}  # of a type: what ends its objects
_types: dict[bytes, int] = {}
_sites: weakref.WeakValueDictionary[int, Site] = weakref.WeakValueDictionary()
_memory: dict[int, Any] = {}
_futures: dict[int, _Future] = {}


class _Future:
    """Where a handler that goes on by itself says that it has ended."""

    def __init__(self) -> None:
        self.ended, self.error = threading.Event(), 0


def _failed(code: int, message: str) -> int:
    number = next(_numbers)
    _errors[number] = code, ctypes.create_string_buffer(message.encode())
    return number


# ---- what a handler may call; each gets the address of its arguments, and returns an error or 0
def _error_create(at: int) -> int:
    given = _ErrorCreate.from_address(at)
    number = next(_numbers)
    _errors[number] = given.code, ctypes.create_string_buffer(given.message or b"")
    return number


def _error_message(at: int) -> None:
    given = _ErrorMessage.from_address(at)
    given.message = ctypes.addressof(_errors[given.error][1])


def _error_destroy(at: int) -> None:
    _errors.pop(_OneHandle.from_address(at).handle, None)


def _refuse(what: str) -> Callable[[int], int]:
    return lambda at: _failed(_UNIMPLEMENTED, f"calque has no {what} for handlers.")


def _register_type(at: int) -> int:
    given = _TypeRegister.from_address(at)
    return note_type(ctypes.string_at(given.name.at, given.name.length), given.type_id,
                     given.info or 0)


def note_type(name: bytes, type_id: int, info: int) -> int:
    """A type of a library's states gets its number, written to `type_id`; an error or 0."""
    place = I64.from_address(type_id)
    known = _types.setdefault(name, place.value or next(_numbers))
    if place.value not in (0, known):
        return _failed(_INVALID, f"type {name.decode()} has another number already.")
    place.value = known
    if info:
        _deleters[known] = _TypeInfo.from_address(info).deleter or 0
    return 0


def _context_get(at: int) -> int:
    return _failed(_NOT_FOUND, "calque's calls of handlers have no data of that type.")


def _state(at: int) -> tuple[Any, int, int]:
    """The arguments of a question about a state, its stage and its type."""
    given = _Staged.from_address(at)
    if given.size < ctypes.sizeof(_Staged):  # (before stages had states)
        given = _Get.from_address(at)
        return given, INSTANTIATE, I64.from_address(given.type_id).value
    return given, given.stage, I64.from_address(given.type_id).value


def _state_set(at: int) -> int:
    given, stage, kind = _state(at)
    site = _sites.get(given.context)
    if site is None or stage in site.states:
        return _failed(_INVALID, "this call has its state already.")
    site.states[stage] = kind, given.data
    if deleter := _deleters.get(kind):
        weakref.finalize(site, _Task(deleter), given.data).atexit = False
    return 0


def _state_get(at: int) -> int:
    given, stage, kind = _state(at)
    site = _sites.get(given.context)
    found = (0, None) if site is None else site.states.get(stage, (0, None))
    if found[0] != kind:
        return _failed(_NOT_FOUND, "this call has no state of that type.")
    given.data = found[1]
    return 0


def _allocate(at: int) -> int:
    given = _Allocate.from_address(at)
    space, place = _aligned((given.bytes,), np.dtype("u1"), max(_ALIGNMENT, given.alignment))
    given.data = place
    _memory[place] = space
    return 0


def _free(at: int) -> int:
    _memory.pop(_Free.from_address(at).data, None)
    return 0


def _schedule(at: int) -> int:
    given = _Schedule.from_address(at)
    _Task(given.task)(given.data)  # at once: a pool may run a task in its caller's thread
    return 0


def _one_thread(at: int) -> int:
    I64.from_address(_Two.from_address(at).second).value = 1
    return 0


def _future_create(at: int) -> int:
    number = _OneHandle.from_address(at).handle = next(_numbers)
    _futures[number] = _Future()
    return 0


def _future_ended(at: int) -> int:
    _futures[_OneHandle.from_address(at).handle].ended.set()
    return 0


def _future_failed(at: int) -> int:
    given = _Two.from_address(at)
    future = _futures[given.first]
    future.error = given.second or 0
    future.ended.set()
    return 0


def _run_id(at: int) -> int:
    I64.from_address(at + ctypes.sizeof(_Struct) + ctypes.sizeof(P)).value = next(_numbers)
    return 0


def _ordinal(at: int) -> int:
    I32.from_address(at + ctypes.sizeof(_Struct) + ctypes.sizeof(P)).value = 0
    return 0


_CALLS: tuple[Callable[[int], int | None], ...] = (
    _error_create, _error_message, _error_destroy, _refuse("way to register others"),
    _refuse("stream (arrays are a CPU's)"), _register_type, _context_get, _state_set, _state_get,
    _allocate, _free, _schedule, _one_thread, _future_create, _future_ended, _future_failed,
    _run_id, _ordinal)
_QUIET = (_error_message, _error_destroy)  # these return nothing
_functions = [(_Task if f in _QUIET else Handler)(f) for f in _CALLS]


class _Api(ctypes.Structure):
    _fields_ = [("size", SIZE), ("extension", P), ("version", _Version), ("internal", P),
                ("calls", P * len(_CALLS))]


_api = _Api()
_api.size = ctypes.sizeof(_Api)
_api.version = _Version(ctypes.sizeof(_Version), None, _MAJOR, _MINOR)
_api.calls[:] = [ctypes.cast(f, P).value for f in _functions]


class _Frame(_Struct):
    """What a handler is called with."""

    _fields_ = [("api", P), ("context", P), ("stage", I32), ("args", _List), ("rets", _List),
                ("attributes", _Attributes), ("future", P)]


def _aligned(shape: Sequence[int], dtype: Any, alignment: int = _ALIGNMENT) -> tuple[Any, int]:
    """An array at an address that vector code takes, and the address."""
    count = math.prod(shape) * dtype.itemsize
    raw = np.empty(count + alignment, np.uint8)
    place = raw.__array_interface__["data"][0]
    first = -place % alignment
    return np.ndarray(shape, dtype, raw, first), place + first


def _copied(x: Any) -> tuple[Any, int]:
    made, place = _aligned(x.shape, x.dtype)
    made[...] = x
    return made, place


def code_of(dtype: Any) -> int | None:
    """The number under which handlers know a dtype, or None."""
    return _DTYPES.get(np.dtype(dtype))


def frozen(value: Any) -> Frozen:
    """An attribute as it is kept: of Python's numbers 64 bits, as with JAX.

    Raises:
      TypeError: it is none that handlers know.
    """
    if isinstance(value, (str, bytes)):
        return _STRING, value.encode() if isinstance(value, str) else value
    if isinstance(value, dict):
        return _DICTIONARY, tuple(sorted((str(k), frozen(v)) for k, v in value.items()))
    value = getattr(value, "val", value) if not isinstance(value, np.ndarray) else value
    kind = {bool: "?", int: "i8", float: "f8"}.get(type(value))
    if not isinstance(value, (np.ndarray, np.generic)) and kind is None:
        raise TypeError(type(value).__name__)
    array = np.asarray(value, kind)
    if code_of(array.dtype) is None:
        raise TypeError(str(array.dtype))
    scalar = kind is not None or isinstance(value, np.generic)
    return _SCALAR if scalar else _ARRAY, array.dtype.str if array.dtype.kind != "V" else (
        array.dtype.name), array.tobytes()


def _attributes(given: Sequence[tuple[str, Frozen]], kept: list[Any]) -> Any:
    """The structure of attributes, by their names; what it points to is added to `kept`."""
    given = sorted(given, key=lambda item: item[0].encode())
    kinds, names, items = ((t * len(given))() for t in (I32, P, P))
    for i, (name, (kind, *rest)) in enumerate(given):
        text = name.encode()
        span = _Span(ctypes.cast(ctypes.c_char_p(text), P).value, len(text))
        if kind == _DICTIONARY:
            item: Any = _attributes(rest[0], kept)
        elif kind == _STRING:
            item = _Span(ctypes.cast(ctypes.c_char_p(rest[0]), P).value, len(rest[0]))
            kept.append(rest[0])
        else:
            dtype = np.dtype(rest[0])
            data, place = _copied(np.frombuffer(rest[1], np.uint8))
            kept.append(data)
            item = _Scalar(_DTYPES[dtype], place) if kind == _SCALAR else _Dense(
                _DTYPES[dtype], len(rest[1]) // dtype.itemsize, place)
        kept += [text, span, item]
        kinds[i], names[i], items[i] = kind, ctypes.addressof(span), ctypes.addressof(item)
    kept += [kinds, names, items]
    return _Attributes(ctypes.sizeof(_Attributes), None, len(given), ctypes.addressof(kinds),
                       ctypes.addressof(names), ctypes.addressof(items))


def _list(specs: Sequence[tuple[Any, Any]], kept: list[Any]) -> tuple[Any, list[Any]]:
    """The structure of arguments or results, and its buffers, which wait for their memory; what it
    points to is added to `kept`."""
    n = len(specs)
    kinds, items, buffers = (I32 * n)(*[_BUFFER] * n), (P * n)(), []
    for i, (shape, dtype) in enumerate(specs):
        dims = (I64 * len(shape))(*shape)
        buffers.append(_Buffer(ctypes.sizeof(_Buffer), None, _DTYPES[dtype], None, len(shape),
                               ctypes.addressof(dims)))
        items[i] = ctypes.addressof(buffers[-1])
        kept.append(dims)
    kept += [kinds, items]
    return _List(ctypes.sizeof(_List), None, n, ctypes.addressof(kinds),
                 ctypes.addressof(items)), buffers


class _Call:
    """A frame, used by one call at a time."""

    def __init__(self, specs: Sequence[tuple[Any, Any]], results: Sequence[tuple[Any, Any]],
                 attributes: Any, context: int) -> None:
        self._kept: list[Any] = []
        args, first = _list(specs, self._kept)
        rets, second = _list(results, self._kept)
        self.buffers = [*first, *second]
        self.frame = _Frame(_FRAME_SIZE, None, ctypes.addressof(_api), context, EXECUTE, args, rets,
                            attributes, None)
        self.address = ctypes.addressof(self.frame)


def checked(name: str, address: int) -> None:
    """Ask a handler which version of the interface it was compiled for.

    Raises:
      DeviceError: another than this, or it does not answer.
    """
    found = _Metadata()
    found.size = _METADATA_SIZE
    found.version.size = ctypes.sizeof(_Version)
    asked = _Extension(ctypes.sizeof(_Extension), 1, None, ctypes.addressof(found))
    frame = _Frame(_FRAME_SIZE, ctypes.addressof(asked), ctypes.addressof(_api))
    _raised(name, Handler(address)(ctypes.addressof(frame)))
    if found.version.major != _MAJOR:
        raise DeviceError(f"ffi_call: the handler of {name!r} is compiled for version "
                          f"{found.version.major}.{found.version.minor} of XLA's interface.\n"
                          f"  Fix: compile it with headers of version {_MAJOR}.")


def _raised(name: str, error: int | None) -> None:
    if error:
        _, message = _errors.pop(error, (0, None))
        said = message.value.decode(errors="replace") if message is not None else "no message"
        raise DeviceError(f"ffi_call: the handler of {name!r} failed: {said}")


class Site:
    """One call of a handler in a program: f(arrays) -> results; its state lives as long as it.

    Args:
      name: of the target; handlers: the addresses of its functions by stage, 0 where it has none.
      results: (shape, dtype) of each; attributes: (name, from `frozen`).
      aliases: argument -> result: the argument's values are in the result's memory.

    Raises:
      DeviceError: (when it is called) the handler returns an error.
    """

    borrows = True  # it looks at its arguments while it runs (runtime/callbacks)

    def __init__(self, name: str, handlers: Sequence[int], results: Sequence[tuple[Any, Any]],
                 attributes: Sequence[tuple[str, Frozen]], aliases: dict[int, int]) -> None:
        self.__name__ = name
        self._handlers = [Handler(h) if h else None for h in handlers]
        self._results = [(tuple(s), np.dtype(d)) for s, d in results]
        self._aliases = aliases
        self._kept: list[Any] = []
        self._attributes = _attributes(attributes, self._kept)
        self.states: dict[int, tuple[int, int]] = {}
        self._context = next(_numbers)
        _sites[self._context] = self
        self._lock, self._ready = threading.Lock(), False
        self._idle: list[_Call] = []

    def __repr__(self) -> str:
        return self.__name__

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        with self._lock:
            if not self._ready:
                for address in {ctypes.cast(h, P).value for h in self._handlers if h}:
                    checked(self.__name__, address or 0)
                self._run(INSTANTIATE, _Call((), (), self._attributes, self._context))
                self._ready = True
        outs, given, places = [], [], []
        for x in arrays:
            place = x.__array_interface__["data"][0]
            if place % _ALIGNMENT or not x.flags.c_contiguous:  # a part of another array
                x, place = _copied(x)
            given.append(x)
            places.append(place)
        for shape, dtype in self._results:
            x, place = _aligned(shape, dtype)
            outs.append(x)
            places.append(place)
        for i, j in self._aliases.items():
            outs[j][...] = given[i]
            places[i] = places[len(given) + j]
        try:
            call = self._idle.pop()
        except IndexError:
            call = _Call([(x.shape, x.dtype) for x in given], self._results, self._attributes,
                         self._context)
        for buffer, place in zip(call.buffers, places, strict=True):
            buffer.data = place
        for stage in (PREPARE, INITIALIZE, EXECUTE):
            self._run(stage, call)
        self._idle.append(call)  # (its arguments have one type for as long as this site is)
        return outs

    def _run(self, stage: int, call: _Call) -> None:
        handler = self._handlers[stage]
        if handler is None:
            return
        call.frame.stage = stage
        _raised(self.__name__, handler(call.address))
        if call.frame.future:
            number, call.frame.future = call.frame.future, None
            future = _futures[number]
            future.ended.wait()
            del _futures[number]
            _raised(self.__name__, future.error)


__all__ = ["Site", "checked", "code_of", "frozen", "note_type"]
