"""Arrays beside an artifact: parameter archives (.irpa, .safetensors, .gguf).

An artifact names the arrays that it reads (name, dtype, shape); `provider` opens an archive, checks
that they are there with as many bytes as the artifact wants, and gives what a Module reads them by.
Several artifacts may share an archive: names are made of the contents.
"""
from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import iree.runtime as rt
import numpy as np

from calque.runtime.errors import ArtifactError, clean, explain

SCOPE = "calque"  # under which the compiled module asks for its parameters
_DIGEST = re.compile("[0-9a-f]{32}")
SUFFIXES = (".irpa", ".safetensors", ".gguf")


@dataclass(frozen=True, slots=True)
class Parameter:
    """An array that an artifact reads from an archive."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def provider(path: Path, wanted: Sequence[Parameter], source: str) -> Any:
    """What gives an archive's parameters to a module; ArtifactError where they are not there."""
    if path.suffix not in SUFFIXES:
        raise ArtifactError(explain(f"{path} is no parameter archive.", source,
                                    f"give a file that ends in {', '.join(SUFFIXES)}."))
    if not path.is_file():
        raise ArtifactError(explain(
            f"the artifact reads its parameters from an archive, and there is no {path}.", source,
            "put the archive beside the artifact under its name, or name it "
            "(load(..., parameters=path), calque run --parameters)."))
    index = rt.ParameterIndex()
    try:
        index.load(str(path))
        entries = dict(index.items())
    except Exception as error:  # IREE maps its status codes to many classes
        raise ArtifactError(explain(f"{path} cannot be read: {clean(error)}.", source,
                                    "copy it again, or write it again.")) from error
    for p in wanted:
        found = entries.get(p.name)
        if found is None:
            raise ArtifactError(explain(
                f"{path} has no parameter {p.name} ({p.dtype}{list(p.shape)}).", source,
                "give the archive that was written with this artifact."))
        if found.length != p.nbytes:
            raise ArtifactError(explain(
                f"parameter {p.name} of {path} has {found.length} bytes, the artifact wants "
                f"{p.nbytes}.", source, "give the archive that was written with this artifact."))
    return index.create_provider(scope=SCOPE)


def check_digests(path: Path, wanted: Sequence[Parameter], source: str) -> int:
    """Compare what an archive holds with what was written; how many arrays have a digest.

    An array's name ends in the first half of the SHA-256 of its bytes.  Reads all of them: a second
    for 1 GB.

    Raises:
      ArtifactError: one is not what was written.
    """
    provider(path, wanted, source)
    index = rt.ParameterIndex()
    index.load(str(path))
    entries, checked = dict(index.items()), 0
    for p in wanted:
        digest, entry = p.name.rpartition("-")[2], entries[p.name]
        if _DIGEST.fullmatch(digest) is None:  # of another make
            continue
        data = (entry.file_view if entry.is_file else
                entry.splat_pattern * (p.nbytes // max(1, len(entry.splat_pattern))))
        if hashlib.sha256(data).hexdigest()[:len(digest)] != digest:
            raise ArtifactError(explain(
                f"parameter {p.name} of {path} is not what was written: its bytes have another "
                "digest.", source, "copy the archive again, or write it again."))
        checked += 1
    return checked


def save(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write an archive (.irpa): the same arrays give the same bytes."""
    entries = {name: np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8)
               for name in sorted(arrays)}
    path.touch()  # with the mode that new files have here: IREE's is 0640
    rt.save_archive_file(entries, str(path))
