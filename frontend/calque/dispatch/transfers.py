"""What guards of transfers say: `transfer_guard("disallow")` and its three directions.

`check` is called where a value is about to move, if `config.guards` (some guard was ever set), so
that nobody else pays.  A move is explicit where the user asked for it (device_put, device_get).
Imports core and the errors of runtime.
"""
from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from typing import Any

from calque.core.config import config
from calque.core.errors import explain
from calque.core.source import asked_by_ours
from calque.core.trace import current, eval_trace
from calque.runtime.errors import DeviceError

# what the user asks for by these is the user's, not of our own making
_DOORS = ("numpy/creation", "numpy/methods", "numpy/protocols", "numpy/ufuncs", "numpy/util",
          "lax")
_whose: contextvars.ContextVar[str] = contextvars.ContextVar("calque_whose", default="")
_INSTEAD = {
    "host_to_device": "make it an array once, before, with calque.device_put",
    "device_to_host": "ask for it with calque.device_get",
    "device_to_device": "move it there with calque.device_put"}


def explicit(f: Callable[[], Any], whose: str = "asked for") -> Any:
    """f's result: what it moves, the user asked for; or "ours": it is part of a program."""
    if not config.guards:
        return f()
    token = _whose.set(whose)
    try:
        return f()
    finally:
        _whose.reset(token)


def check(direction: str, value: Any) -> None:
    """Raise, or log, where a guard of this direction says so of the value."""
    if current.get() is not eval_trace or _whose.get() == "ours":
        return  # (a function is traced, or one of ours is at work)
    level = config.read(f"jax_transfer_guard_{direction}") or config.jax_transfer_guard or "allow"
    asked = bool(_whose.get())
    if level == "allow" or asked and not level.endswith("explicit") or not asked and asked_by_ours(
            *_DOORS):
        return
    what = f"{direction.replace('_', '-')} transfer: {_described(value)}"
    if level.startswith("log"):
        logging.getLogger("calque.transfers").warning(what)
        return
    raise DeviceError(explain(
        f"Disallowed {what}.", fix=f"{_INSTEAD[direction]}, or allow it: "
        f"with calque.transfer_guard_{direction}('allow')."))


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"{value.dtype}{list(shape)}" if shape is not None else f"{type(value).__name__} {value}"


__all__ = ["check", "explicit"]
