"""Arrays beside an artifact: what it reads from an archive, or from memory, when it is loaded.

An artifact names the arrays that it reads (name, dtype, shape, digest).  `provider` opens an
archive, checks that they are there with these types, and gives what a Module reads them by; other
values of the same types may stand there (`check_digests` asks).  Several artifacts may share an
archive.
"""
from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calque.runtime import archives
from calque.runtime.errors import ArtifactError, explain

SCOPE = "calque"  # under which the compiled module asks for its parameters
DIGITS = 32  # of a digest that are kept
_DIGEST = re.compile(f"-([0-9a-f]{{{DIGITS}}})$")

Source = Path | Mapping[str, np.ndarray[Any, Any]]  # where parameters are


@dataclass(frozen=True, slots=True)
class Parameter:
    """An array that an artifact reads from an archive.

    Attributes:
      digest: of the bytes that it had when it was compiled, "" where that is not known.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    digest: str = ""

    @property
    def nbytes(self) -> int:
        return archives.nbytes_of((self.dtype, self.shape))

    def __str__(self) -> str:
        return f"{self.name}: {_type_text(self.dtype, self.shape)}"


def digest_of(data: Any) -> str:
    """The first half of the SHA-256 of an array's bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def digest_in(name: str) -> str:
    """The digest at the end of a name; arrays that no variable holds are called by it."""
    found = _DIGEST.search(name)
    return "" if found is None else found[1]


def provider(source: Source, wanted: Sequence[Parameter], where: str) -> Any:
    """What gives an archive's parameters to a module; ArtifactError where they are not there."""
    if isinstance(source, Path):
        found = _read(source, where)
        types = {name: e.type or e.nbytes for name, e in found.entries.items()}
    else:
        arrays = {name: np.asarray(source[name]) for name in {p.name for p in wanted} & {*source}}
        types = {name: (a.dtype, a.shape) for name, a in arrays.items()}
    what = str(source) if isinstance(source, Path) else "what is given for its parameters"
    for p in wanted:
        _check(p, types, what, where)
        if isinstance(source, Path) and found.entries[p.name].nbytes != p.nbytes:
            raise ArtifactError(explain(
                f"{p.name} of {what} has {found.entries[p.name].nbytes} bytes, not those of "
                f"{_type_text(p.dtype, p.shape)}.", where, "copy it again, or write it again."))
    index = (found.index({p.name: p for p in wanted}) if isinstance(source, Path)
             else archives.index_of(arrays))
    return index.create_provider(scope=SCOPE)


def _read(path: Path, where: str) -> archives.Archive:
    if path.suffix in archives.SUFFIXES and not path.is_file():
        raise ArtifactError(explain(
            f"the artifact reads its parameters from an archive, and there is no {path}.", where,
            "put the archive beside the artifact under its name, or name it "
            "(load(..., parameters=path), calque run --parameters)."))
    return archives.read(path, where)


def _check(p: Parameter, types: Mapping[str, archives.Type | int], what: str, where: str) -> None:
    found = types.get(p.name)
    if found is None:
        own = [n for n in types if not digest_in(n)]
        few = ", ".join(own[:5]) + (", ..." if len(own) > 5 else "")
        raise ArtifactError(explain(
            f"{what} has no parameter {p.name} ({_type_text(p.dtype, p.shape)}).", where,
            "give the archive that was written with this artifact, or one with arrays of the "
            f"same names{f' (it has {few})' if few else ''}."))
    if isinstance(found, int):
        if found != p.nbytes:
            raise ArtifactError(explain(
                f"parameter {p.name} of {what} has {found} bytes, the artifact wants {p.nbytes}.",
                where, "give the archive that was written with this artifact."))
    elif found != (p.dtype, p.shape):
        raise ArtifactError(explain(
            f"parameter {p.name} of {what} is {_type_text(*found)}, the artifact wants "
            f"{_type_text(p.dtype, p.shape)}.", where,
            "give arrays of the types it was compiled for, or compile it again with these."))


def _type_text(dtype: np.dtype[Any], shape: Sequence[int]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def check_digests(source: Source, wanted: Sequence[Parameter], where: str) -> int:
    """Compare what an archive holds with what was compiled; how many arrays have a digest.

    Reads all of them: a second for 1 GB.

    Raises:
      ArtifactError: one is not what it was.
    """
    provider(source, wanted, where)
    found = _read(source, where) if isinstance(source, Path) else source
    checked = 0
    for p in wanted:
        digest = p.digest or digest_in(p.name)
        if not digest:  # of another make
            continue
        data = (found.bytes(p.name) if isinstance(found, archives.Archive)
                else np.ascontiguousarray(found[p.name]).reshape(-1).view(np.uint8))
        if digest_of(data) != digest:
            raise ArtifactError(explain(
                f"parameter {p.name} of "
                f"{source if isinstance(source, Path) else 'what is given'} is not what was "
                "compiled: its bytes have another digest.", where,
                "copy the archive again, or write it again; other values of purpose are loaded "
                "without check_parameters."))
        checked += 1
    return checked


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an archive by name, mapped and read-only; bytes where it says no type."""
    made, found = {}, archives.read(path, "")
    for name, entry in found.entries.items():
        flat = np.frombuffer(found.bytes(name), np.uint8)
        if entry.type is not None:
            if archives.nbytes_of(entry.type) != entry.nbytes:
                raise ArtifactError(explain(
                    f"{name} is said to be {_type_text(*entry.type)}, and has {entry.nbytes} "
                    "bytes.", str(path), "copy the archive again, or write it again."))
            flat = flat.view(entry.type[0]).reshape(entry.type[1])
        flat.flags.writeable = False
        made[name] = flat
    return made


def save(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write an archive (.irpa, .safetensors): the same arrays give the same bytes."""
    archives.write(path, arrays)
