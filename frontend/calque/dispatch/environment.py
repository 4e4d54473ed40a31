"""print_environment_info: what a report of a fault should say of versions and devices."""
from __future__ import annotations

import importlib.metadata
import platform
import sys

import numpy as np

from calque.dispatch import devices

__all__ = ["print_environment_info"]
_PACKAGES = ("calque", "iree-base-compiler", "iree-base-runtime")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed as a package"


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions of calque, IREE, NumPy and Python, the devices and the platform.

    Args:
      return_string: return the text instead.

    Returns:
      A string, or None.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> print(calque.print_environment_info(return_string=True).splitlines()[0][:7])
      calque:
    """
    found = devices.devices()
    kind = f"{found[0].platform}-{len(found)}"
    lines = [*[f"{p}: {_version(p)}" for p in _PACKAGES], f"numpy: {np.__version__}",
             f"python: {sys.version}".replace("\n", " "),
             f"device info: {kind}, {devices.local_device_count()} local devices",
             f"process_count: {devices.process_count()}", f"platform: {platform.uname()}"]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None
