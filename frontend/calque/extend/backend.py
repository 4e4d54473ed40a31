"""The platform that arrays are on, as an object: its name, its devices, what lives there."""
from __future__ import annotations

from typing import Any

from calque.core.errors import explain
from calque.core.refused import refusing as _refusing
from calque.runtime import device as devices
from calque.runtime.device import Device


class Client:
    """A platform of this process: what `device.client` is.

    Attributes:
      platform: its name, "cpu"; platform_version: of calque and IREE.
      runtime_type: "iree".

    Example:
      >>> from calque.extend import backend
      >>> backend.get_backend().platform
      'cpu'
    """

    runtime_type = "iree"

    def __init__(self, platform: str) -> None:
        self.platform = platform

    @property
    def platform_version(self) -> str:
        """The versions of calque and IREE."""
        import iree.runtime

        import calque
        return f"calque {calque.__version__}, IREE {iree.runtime.version.VERSION}"

    def devices(self) -> list[Device]:
        """Its devices, those of other processes too."""
        import calque
        return calque.devices(self.platform)

    def local_devices(self) -> list[Device]:
        """Its devices in this process."""
        return [d for d in self.devices() if d.process_index == self.process_index()]

    def device_count(self) -> int:
        """How many devices it has."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """How many of them are in this process."""
        return len(self.local_devices())

    def process_index(self) -> int:
        """Which process this is."""
        import calque
        return calque.process_index()

    def live_arrays(self) -> list[Any]:
        """The arrays that are not deleted."""
        import calque
        return calque.live_arrays()

    def __repr__(self) -> str:
        return f"Client({self.platform!r})"


_clients: dict[str, Client] = {}


def client_of(platform: str) -> Client:
    """The one Client of a platform's name."""
    return _clients.setdefault(platform, Client(platform))


devices.client_of.append(client_of)


def get_backend(platform: Any = None) -> Client:
    """The client of a platform.

    Args:
      platform: its name ("cpu"), a Client, or None: the default one.

    Returns:
      A Client.

    Raises:
      RuntimeError: there is no such platform here.

    Example:
      >>> from calque.extend import backend
      >>> backend.get_backend("cpu").device_count() >= 1
      True
    """
    import calque
    if isinstance(platform, Client):
        return platform
    return client_of(calque.devices(platform)[0].platform)


def backends() -> dict[str, Client]:
    """The clients of the platforms in use, by name.

    Returns:
      A dict; the default platform's is in it.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import backend
      >>> "cpu" in backend.backends()
      True
    """
    get_backend()
    return dict(_clients)


def get_default_device() -> Device:
    """The device that arrays are made on.

    Returns:
      A device: jax_default_device, or the first one.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import backend
      >>> backend.get_default_device().platform
      'cpu'
    """
    import calque
    chosen = calque.config.jax_default_device
    return chosen if isinstance(chosen, Device) else calque.devices(chosen)[0]


def clear_backends() -> None:
    """Forget what was compiled; arrays and devices stay as they are.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import backend
      >>> backend.clear_backends()
    """
    import calque
    calque.clear_caches()
    for cache in _caches:
        cache.cache_clear()


def clear_in_memory_compilation_cache() -> None:
    """Forget what was compiled in this process.

    Returns:
      Nothing.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import backend
      >>> backend.clear_in_memory_compilation_cache()
    """
    clear_backends()


def backend_xla_version(platform: Any = None) -> int | None:
    """The version of XLA that a platform compiles with.

    Args:
      platform: its name.

    Returns:
      None: IREE compiles here.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import backend
      >>> backend.backend_xla_version() is None
      True
    """
    return None


def register_backend_factory(name: str, factory: Any, **_: Any) -> None:
    """NotImplementedError: platforms are IREE's.

    Args:
      name, factory: of the platform.

    Returns:
      Nothing.

    Raises:
      NotImplementedError: always.

    Example:
      >>> from calque.extend import backend
      >>> backend.register_backend_factory("mine", None)
      Traceback (most recent call last):
      ...
      NotImplementedError: register_backend_factory: 'mine' cannot be a platform here.
      Fix: choose one of IREE's with jax_platforms: cpu, cuda or vulkan.
    """
    raise NotImplementedError(explain(
        f"register_backend_factory: {name!r} cannot be a platform here.",
        fix="choose one of IREE's with jax_platforms: cpu, cuda or vulkan."))


_caches: list[Any] = []  # of libraries


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Let a cache of a library's be forgotten with what is compiled (`clear_backends`).

    Args:
      cache: has cache_clear(), as what functools.lru_cache gives.
      for_what: what it holds, in words.

    Returns:
      Nothing.

    Raises:
      TypeError: it cannot be cleared.

    Example:
      >>> import functools
      >>> from calque.extend import backend
      >>> squares = functools.lru_cache(lambda n: n * n)
      >>> backend.register_backend_cache(squares, "squares")
      >>> squares(3)
      9
      >>> backend.clear_backends()
      >>> squares.cache_info().currsize
      0
    """
    if not callable(getattr(cache, "cache_clear", None)):
        raise TypeError(explain(f"register_backend_cache: {for_what} has no cache_clear.",
                                fix="pass what functools.lru_cache gave."))
    _caches.append(cache)


__getattr__ = _refusing(__name__)
__all__ = ["Client", "backend_xla_version", "backends", "clear_backends",
           "clear_in_memory_compilation_cache", "get_backend", "get_default_device",
           "register_backend_cache", "register_backend_factory"]


def __dir__() -> list[str]:
    return __all__
