"""Python functions as imports of a compiled program: the module `py` with call0, call1, ...

A call runs on the thread that called the program, in the program's order.  What a function raises
is kept and raised by the program's caller, a DeviceError besides.  One whose attribute `borrows` is
true looks at its arrays while it is called and no longer: they are not copied.  One whose attribute
`into` is true is given the memory of its results, and is called by a thread of its own where the
program is queued (lane.py): its `ask` gives a number where the program comes to it, which the call
is given, and `drop` is told where that call fails or cannot be made.  Start at `make_module`.
"""
from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import iree.runtime as rt
import numpy as np

from calque.runtime import lane
from calque.runtime.device import is_host, is_queue, vm_instance
from calque.runtime.dtypes import element_type
from calque.runtime.errors import DeviceError
from calque.runtime.memory import DEVICE_LOCAL, DEVICE_USAGE, HOST_USAGE
from calque.runtime.staging import fetched, stored
from calque.runtime.watch import span

Spec = tuple[tuple[int, ...], Any]
Call = tuple[Callable[..., Any], Sequence[Spec], Sequence[Spec]]
_HOST = rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE

_raised = threading.local()


def take_failure() -> BaseException | None:
    """What a callback raised on this thread since the last question."""
    failure: BaseException | None = getattr(_raised, "error", None)
    _raised.error = None
    return failure if failure is None else of_program(failure)


_kinds: dict[type, type] = {}


def of_program(error: BaseException) -> BaseException:
    """The same exception, of a class that is also DeviceError: whoever runs programs finds what
    goes wrong in them under that name.  (An exception that cannot be made anew stays as it is.)"""
    kind = type(error)
    if not isinstance(error, Exception) or isinstance(error, DeviceError):
        return error
    try:
        if kind not in _kinds:
            _kinds[kind] = type(kind.__name__, (kind, DeviceError), {
                "__module__": kind.__module__, "__qualname__": kind.__qualname__,
                "__str__": _told})
        users = [b for b in kind.__mro__ if b.__module__ != "builtins"]
        if not any("__init__" in vars(b) for b in users):
            made = _kinds[kind](*error.__reduce__()[1])  # as pickle has it
        else:  # the user's: what it does is done
            made = _kinds[kind].__new__(_kinds[kind], *error.args)
        made.__dict__.update(error.__dict__)
    except Exception:
        return error
    return made.with_traceback(error.__traceback__)


def _told(error: BaseException) -> str:
    """What it says, and its class: handlers of DeviceError look for both in its text (equinox)."""
    kind: Any = type(error).__mro__[1]
    return f"{kind.__str__(error)}\n  (a callback raised {kind.__name__}: {kind.__str__(error)})"


def _carrier(dtype: Any) -> Any:
    """The NumPy dtype in which a value crosses (lowering/rules/callback.carriers)."""
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return dtype if dtype.kind in "fi" else np.dtype(f"i{dtype.itemsize}")


def make_module(calls: Sequence[Call], hal_device: Any) -> Any:
    """The VM module that answers the calls of one program on one device."""
    interface = rt.PyModuleInterface("py", lambda _: None)
    for i, call in enumerate(calls):
        _, operands, results = call
        n, m = _count(operands), _count(results) or 1
        interface.export(f"call{i}", f"0{'r' * n}rr_{'r' * m}", _import(call, hal_device))
    vm_instance()
    return interface.create()


def _count(specs: Sequence[Spec]) -> int:
    return sum(2 if d.kind == "c" else 1 for s, d in specs if _size(s))


def _size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _import(call: Call, hal_device: Any) -> Callable[..., Any]:
    function, operands, results = call
    if getattr(function, "into", False):
        return _writing(call, hal_device)
    mapped, copied = is_host(hal_device), not getattr(function, "borrows", False)

    def run(_: Any, *refs: Any) -> Any:
        *views, wait, signal = refs
        try:
            fence = None if wait is None else wait.deref(rt.HalFence, True)
            if fence is not None:
                fence.wait()
            given = iter(views)
            args = [_read(given, s, d, None if mapped else hal_device, copied)
                    for s, d in operands]
            with span(repr(function), "callback"):
                outs = function(args)
            made = [ref for o, (s, d) in zip(outs, results, strict=True) if _size(s)
                    for ref in _write(np.asarray(o), s, d, hal_device)]
        except BaseException as error:  # it is raised again by the caller of the program
            _raised.error = error
            raise RuntimeError("a callback raised") from error
        done = None if signal is None else signal.deref(rt.HalFence, True)
        if done is not None:
            done.signal()
        if not made:  # a number that nobody reads (lowering/rules/callback)
            made = _write(np.zeros((), np.int32), (), np.dtype(np.int32), hal_device)
        return made[0] if len(made) == 1 else tuple(made)

    return run


def _writing(call: Call, hal_device: Any) -> Callable[..., Any]:
    """The import of a function of (arrays, results) that writes into the latter; nothing is copied
    in the host's memory, and arrays are of real numbers.  On a queue it is the lane's work
    (runtime/lane)."""
    function, operands, results = call
    given = [(s, _carrier(d), d) for s, d in operands if _size(s)]
    made = [(s, c := _carrier(d), d, element_type(c), _size(s) * c.itemsize)
            for s, d in results if _size(s)]
    queued, mapped = is_queue(hal_device), is_host(hal_device)
    kind, usage = (_HOST, HOST_USAGE) if mapped else (DEVICE_LOCAL, DEVICE_USAGE)

    drop: Callable[[int, BaseException], None] = function.drop  # type: ignore[attr-defined]
    plain = all(c == d for _, c, d in given) and all(c == d for _, c, d, _, _ in made)

    def on_host(views: Any, outs: Any, number: int) -> None:
        arrays = [v.map().asarray(s, c) for v, (s, c, _) in zip(views, given)]
        results = [o.map().asarray(s, c) for o, (s, c, _, _, _) in zip(outs, made)]
        if not plain:
            arrays = [a.view(d) for a, (_, _, d) in zip(arrays, given)]
            results = [r.view(d) for r, (_, _, d, _, _) in zip(results, made)]
        function(arrays, results, number)

    def through_host(views: Any, outs: Any, number: int) -> None:
        arrays = [np.empty(s, c) for s, c, _ in given]
        results = [np.empty(s, c) for s, c, _, _, _ in made]
        for v, a in zip(views, arrays):
            fetched(hal_device, v.get_buffer(), a, f"copying an operand of {function!r}")
        function([a.view(d) for a, (_, _, d) in zip(arrays, given)],
                 [r.view(d) for r, (_, _, d, _, _) in zip(results, made)], number)
        for o, r in zip(outs, results):
            stored(hal_device, r, o.get_buffer(), f"copying a result of {function!r}")

    def run(_: Any, *refs: Any) -> Any:
        *refs, wait, signal = refs  # type: ignore[assignment]
        number = 0
        try:
            number = function.ask()  # type: ignore[attr-defined]
            fence = None if wait is None else wait.deref(rt.HalFence, True)
            done = None if signal is None else signal.deref(rt.HalFence, True)
            views = [v.deref(rt.HalBufferView) for v in refs]
            outs = []
            for s, _c, _d, element, nbytes in made:
                memory = hal_device.allocator.allocate_buffer(kind, usage, nbytes)
                outs.append(rt.HalBufferView(memory, s, element))

            def work() -> None:
                (on_host if mapped else through_host)(views, outs, number)

            if queued:
                lane.messages.add(fence, work, done, partial(drop, number))
            else:
                if not lane.messages.is_idle():  # what was asked for before goes before
                    lane.messages.drain()
                if fence is not None:
                    fence.wait()
                work()
                if done is not None:
                    done.signal()
        except BaseException as error:  # it is raised again by the caller of the program
            _raised.error = error
            if number:
                drop(number, error)
            raise RuntimeError("a callback raised") from error
        if not outs:  # as above; nothing of the program waits for it
            if queued:
                lane.messages.drain()
            return _write(np.zeros((), np.int32), (), np.dtype(np.int32), hal_device)[0]
        return outs[0].ref if len(outs) == 1 else tuple(o.ref for o in outs)

    return run


def _read(views: Any, shape: tuple[int, ...], dtype: Any, gpu: Any, copied: bool) -> Any:
    """An operand's value; gpu: the IREE device whose memory the host does not see."""
    if not _size(shape):
        return np.zeros(shape, dtype)
    carrier = _carrier(dtype)
    parts = []
    for _ in range(2 if dtype.kind == "c" else 1):
        view = next(views).deref(rt.HalBufferView)
        if gpu is None:
            seen = view.map().asarray(shape, carrier)
            parts.append(seen.copy() if copied else seen)
        else:
            parts.append(np.empty(shape, carrier))
            fetched(gpu, view.get_buffer(), parts[-1], "copying a callback's operand")
    if dtype.kind == "c":
        out = np.empty(shape, dtype)
        out.real, out.imag = parts
        return out
    return parts[0].view(dtype)


def _write(x: Any, shape: tuple[int, ...], dtype: Any, hal_device: Any) -> list[Any]:
    carrier = _carrier(dtype)
    parts = [x.real, x.imag] if dtype.kind == "c" else [np.ascontiguousarray(x, dtype).reshape(
        shape).view(carrier)]
    refs = []
    for part in parts:
        flat = np.ascontiguousarray(part, carrier).reshape(-1)
        if is_host(hal_device):
            memory = hal_device.allocator.allocate_buffer_copy(
                _HOST, HOST_USAGE, hal_device, flat.view(np.uint8), rt.HalElementType.UINT_8
            ).get_buffer()
        else:
            memory = hal_device.allocator.allocate_buffer(DEVICE_LOCAL, DEVICE_USAGE, flat.nbytes)
            stored(hal_device, flat, memory, "copying a callback's result")
        refs.append(rt.HalBufferView(memory, shape, element_type(carrier)).ref)
    return refs
