"""Where what outlives the process lies: compiled programs, and those that failed."""
from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_directory() -> Path:
    """Where entries live: $CALQUE_CACHE_DIR, else ~/.cache/calque."""
    named = os.environ.get("CALQUE_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "calque"
    except RuntimeError:  # no home directory
        return Path(tempfile.gettempdir()) / "calque-cache"
