"""Listeners to what calque does, and events of one's own, under the names of jax.monitoring.

An event is a name with metadata; it may carry a duration, a number, or the times between which
something happened.  docs/profiling.md lists the events that calque sends.  The functions are a few
lines each over core/monitoring.
"""
from __future__ import annotations

from collections.abc import Callable

from calque.core import monitoring as core
from calque.core.errors import explain

Listener = Callable[..., None]


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell the listeners of an event.

    Args:
      event: its name, a path by custom.
      **kwargs: metadata.

    Returns:
      None.

    Raises:
      Exception: what a listener raises.

    Example:
      >>> from calque import monitoring
      >>> listener = lambda *event, **metadata: print(*event, metadata)
      >>> monitoring.register_event_listener(listener)
      >>> monitoring.record_event("/my/event", size=3)
      /my/event {'size': 3}
      >>> monitoring.unregister_event_listener(listener)
    """
    core.send("event", event, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """Have a function called at each such event: listener(event, **metadata).

    Args:
      callback: the function; registered twice, it is called twice.

    Returns:
      None.

    Raises:
      TypeError: it cannot be called.

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_event_listener(print)
      >>> monitoring.unregister_event_listener(print)
    """
    core.register("event", _checked(callback))


def unregister_event_listener(callback: Listener) -> None:
    """Call a listener no more.

    Args:
      callback: as it was registered.

    Returns:
      None.

    Raises:
      AssertionError: it is not registered (the class is JAX's).

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_event_listener(print)
      >>> monitoring.unregister_event_listener(print)
    """
    _found(core.unregister("event", callback), callback)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell the listeners of an event that took so long.

    Args:
      event: its name, a path by custom.
      duration: in seconds.
      **kwargs: metadata.

    Returns:
      None.

    Raises:
      Exception: what a listener raises.

    Example:
      >>> from calque import monitoring
      >>> listener = lambda *event, **metadata: print(*event, metadata)
      >>> monitoring.register_event_duration_secs_listener(listener)
      >>> monitoring.record_event_duration_secs("/my/event", 1.5, size=3)
      /my/event 1.5 {'size': 3}
      >>> monitoring.unregister_event_duration_listener(listener)
    """
    core.send("duration", event, duration, **kwargs)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Have a function called at each such event: listener(event, duration, **metadata), in seconds.

    Args:
      callback: the function; registered twice, it is called twice.

    Returns:
      None.

    Raises:
      TypeError: it cannot be called.

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_event_duration_secs_listener(print)
      >>> monitoring.unregister_event_duration_listener(print)
    """
    core.register("duration", _checked(callback))


def unregister_event_duration_listener(callback: Listener) -> None:
    """Call a listener no more.

    Args:
      callback: as it was registered.

    Returns:
      None.

    Raises:
      AssertionError: it is not registered (the class is JAX's).

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_event_duration_secs_listener(print)
      >>> monitoring.unregister_event_duration_listener(print)
    """
    _found(core.unregister("duration", callback), callback)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Tell the listeners of a number.

    Args:
      event: its name, a path by custom.
      value: the number.
      **kwargs: metadata.

    Returns:
      None.

    Raises:
      Exception: what a listener raises.

    Example:
      >>> from calque import monitoring
      >>> listener = lambda *event, **metadata: print(*event, metadata)
      >>> monitoring.register_scalar_listener(listener)
      >>> monitoring.record_scalar("/my/event", 7, size=3)
      /my/event 7 {'size': 3}
      >>> monitoring.unregister_scalar_listener(listener)
    """
    core.send("scalar", event, value, **kwargs)


def register_scalar_listener(callback: Listener) -> None:
    """Have a function called at each such event: listener(event, value, **metadata).

    Args:
      callback: the function; registered twice, it is called twice.

    Returns:
      None.

    Raises:
      TypeError: it cannot be called.

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_scalar_listener(print)
      >>> monitoring.unregister_scalar_listener(print)
    """
    core.register("scalar", _checked(callback))


def unregister_scalar_listener(callback: Listener) -> None:
    """Call a listener no more.

    Args:
      callback: as it was registered.

    Returns:
      None.

    Raises:
      AssertionError: it is not registered (the class is JAX's).

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_scalar_listener(print)
      >>> monitoring.unregister_scalar_listener(print)
    """
    _found(core.unregister("scalar", callback), callback)


def record_event_time_span(event: str, start_time: float, end_time: float,
                           **kwargs: str | int) -> None:
    """Tell the listeners of when something began and ended.

    Args:
      event: its name, a path by custom.
      start_time: in seconds since 1970.
      end_time: likewise.
      **kwargs: metadata.

    Returns:
      None.

    Raises:
      Exception: what a listener raises.

    Example:
      >>> from calque import monitoring
      >>> listener = lambda *event, **metadata: print(*event, metadata)
      >>> monitoring.register_event_time_span_listener(listener)
      >>> monitoring.record_event_time_span("/my/event", 1.0, 2.5, size=3)
      /my/event 1.0 2.5 {'size': 3}
      >>> monitoring.unregister_event_time_span_listener(listener)
    """
    core.send("time span", event, start_time, end_time, **kwargs)


def register_event_time_span_listener(callback: Listener) -> None:
    """Have a function called at each such event: listener(event, start, end, **metadata).

    Args:
      callback: the function; registered twice, it is called twice.

    Returns:
      None.

    Raises:
      TypeError: it cannot be called.

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_event_time_span_listener(print)
      >>> monitoring.unregister_event_time_span_listener(print)
    """
    core.register("time span", _checked(callback))


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Call a listener no more.

    Args:
      callback: as it was registered.

    Returns:
      None.

    Raises:
      AssertionError: it is not registered (the class is JAX's).

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_event_time_span_listener(print)
      >>> monitoring.unregister_event_time_span_listener(print)
    """
    _found(core.unregister("time span", callback), callback)


def clear_event_listeners() -> None:
    """Forget all listeners, of every kind.

    Returns:
      None.

    Raises:
      Nothing.

    Example:
      >>> from calque import monitoring
      >>> monitoring.register_event_listener(print)
      >>> monitoring.clear_event_listeners()
      >>> monitoring.record_event("/my/event")
    """
    core.clear()


def _checked(callback: Listener) -> Listener:
    if not callable(callback):
        raise TypeError(explain(f"a listener must be a function, got {callback!r}."))
    return callback


def _found(there: bool, callback: Listener) -> None:
    if not there:
        raise AssertionError(explain(f"{callback!r} is not registered as a listener of this kind.",
                                     fix="unregister the object that was registered, once."))


__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs",
    "record_event_time_span", "record_scalar", "register_event_duration_secs_listener",
    "register_event_listener", "register_event_time_span_listener", "register_scalar_listener",
    "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener"]


def __dir__() -> list[str]:
    return __all__
