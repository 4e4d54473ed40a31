"""The code of kernels for CUDA, out of the archives beside this file.

Start reading at `code`.
"""
from __future__ import annotations

import functools
import hashlib
import json
import lzma
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.lowering.kernels.user import kept

ARCHIVES = Path(__file__).parent / "archives"


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel as it is embedded.

    Attributes:
      path: PTX, or machine code for compute capability 9.
      entry: its name there; block: threads of a block; shared: bytes of a block's shared memory;
      scratch: bytes of work space that a block takes.
    """

    path: Path
    entry: str
    block: int
    shared: int
    scratch: int


@functools.cache
def _manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ARCHIVES / "manifest.json").read_text("utf-8"))
    return found


@functools.cache
def code(name: str) -> Code:
    """The code of a kernel of table.py."""
    suffix = "cubin" if name.endswith("sm90") else "ptx"
    about = _manifest()["kernels"][f"{name}.{suffix}"]
    with (lzma.open(ARCHIVES / f"{about['archive']}.tar.xz") as file,
          tarfile.open(fileobj=file) as tar):
        member = tar.extractfile(f"{name}.{suffix}")
        assert member is not None
        data = member.read()
    path = kept(f"{hashlib.sha256(data).hexdigest()[:24]}.{suffix}", data)
    return Code(path, about["entry"], about["block"], about["shared"], about["scratch"])
