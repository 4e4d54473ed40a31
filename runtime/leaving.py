"""What a process that ends does with its Vulkan devices: it lets go of them.

A thread of IREE's waits in Vulkan's driver as long as a device lives; where the driver is unloaded
under it, as NVIDIA's is when a process ends, the process dies of it.  So, before that, everything
made from a device is given up: buffers (whoever still holds an Array finds it deleted), programs,
semaphores, at last the device, whose end waits for its thread.  Where a thread is still inside a
call of ours (a daemon's: others have ended), everything stays: memory that outlives its device
would be the worse end.  (IREE cannot be asked whether memory is left: on Vulkan it does not count
what was given back.)  Classes whose objects hold what is made from a device say how they give it
up.
Start reading at `let_go`.
"""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import sys
import threading
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

from calque.runtime.lane import messages

_ended: list[Any] = []  # not empty: nothing may be asked of these devices any more
_kinds: dict[type, Callable[[Any, Collection[Any]], None]] = {}


def gives_up(kind: type, how: Callable[[Any, Collection[Any]], None]) -> None:
    """Say how an object of a class gives up what it has of some IREE devices."""
    _kinds[kind] = how


@functools.cache
def watch(opened: Callable[[], dict[str, Any]], hal_module: Any) -> None:
    """Let go of Vulkan devices when the process ends.

    Args:
      opened: gives the IREE devices that are open, by name; they are taken out of it.
      hal_module: gives the VM module of one, which is kept for ever, too.
    """
    atexit.register(let_go, opened, hal_module)


def is_over() -> bool:
    """Whether the process ends, and its Vulkan devices are gone."""
    return bool(_ended)


def let_go(opened: Callable[[], dict[str, Any]], hal_module: Any) -> None:
    """Give up the Vulkan devices of this process, and all that is made from them."""
    every = opened()
    found = {uri: hal for uri, hal in every.items() if uri.startswith("vulkan")}
    if not found or _is_busy():
        return
    _ended.append(True)
    with contextlib.suppress(AttributeError):  # other Pythons
        gc.unfreeze()
    items = gc.get_objects()
    for kind, how in reversed(_kinds.items()):  # those first that build on the others
        for item in items:
            if isinstance(item, kind):
                how(item, found.values())
    del items
    modules = [hal_module(hal) for hal in found.values()]
    hal_module.cache_clear()  # those of CPUs are immortal anyhow
    for uri in found:
        del every[uri]
    for immortal in (*modules, *found.values()):
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(immortal))


def _is_busy() -> bool:
    """Whether another thread is inside a call of ours."""
    frames = sys._current_frames()
    del frames[threading.get_ident()]  # a frame that holds itself would hold the devices
    for frame in frames.values():
        at: FrameType | None = frame
        while at is not None:
            name = str(at.f_globals.get("__name__", ""))
            if name.startswith("calque.runtime"):
                # (the thread of messages waits for some as long as the process lives, that of idle
                # memory has to do with the host's alone)
                if not (name == "calque.runtime.idle"
                        or name == "calque.runtime.lane" and messages.is_idle()):
                    return True
                break
            at = at.f_back
    return False


__all__ = ["gives_up", "is_over", "let_go", "watch"]
