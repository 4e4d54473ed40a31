"""Several compiled modules in one .vmfb: entry points and targets that were compiled on their own.

The file begins as the first module (IREE reads no further than its FlatBuffer), the others follow
at multiples of 64 bytes, and the end is an index:

    module 0 | padding | module 1 | ... | JSON {"parts": [...]} | its length, 8 bytes | magic

The length is little-endian; a part is {"offset", "size", "sha256"}.  A file of one module has an
index, too: IREE's loader crashes on some files with a flipped bit, so the digest is looked at
first.  Modules that something else wrote have none.  Start reading at `split`.
"""
from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from calque.runtime.errors import ArtifactError, explain

MAGIC = b"CALQPART"
ALIGNMENT = 64
_TRAILER = 8 + len(MAGIC)
_DESCRIBED = b"calque.signature"  # in every artifact (aot.RECORD_KEY)


def join(parts: Sequence[bytes]) -> bytes:
    """One file of several modules; the same parts give the same bytes."""
    made: list[bytes] = []
    index, end = [], 0
    for part in parts:
        padding = bytes(-end % ALIGNMENT)
        index.append({"offset": end + len(padding), "sha256": hashlib.sha256(part).hexdigest(),
                      "size": len(part)})
        made += [padding, part]
        end += len(padding) + len(part)
    text = json.dumps({"parts": index}, separators=(",", ":"), sort_keys=True).encode()
    return b"".join([*made, text, len(text).to_bytes(8, "little"), MAGIC])


def split(data: bytes, source: str) -> list[bytes]:
    """The modules of a file; ArtifactError where its index or a part is damaged."""
    if data[-len(MAGIC):] != MAGIC:
        if _DESCRIBED in data:  # one of ours, so it had an index
            raise _damaged(source, "its end is missing")
        return [data]
    size = int.from_bytes(data[-_TRAILER:-len(MAGIC)], "little")
    end = len(data) - _TRAILER
    if size > end:
        raise _damaged(source, "the index is longer than the file")
    try:
        index = json.loads(data[end - size:end])["parts"]
        places = [(int(p["offset"]), int(p["size"]), str(p["sha256"])) for p in index]
    except (KeyError, TypeError, ValueError, UnicodeDecodeError, RecursionError):
        raise _damaged(source, "the index cannot be read") from None
    parts = []
    for offset, length, digest in places:
        if offset < 0 or length <= 0 or offset + length > end - size or offset % ALIGNMENT:
            raise _damaged(source, f"a part of {length} bytes at {offset} is outside the file")
        part = data[offset:offset + length]
        if hashlib.sha256(part).hexdigest() != digest:
            raise _damaged(source, f"the part at {offset} is not what was written")
        parts.append(part)
    if not parts:
        raise _damaged(source, "the index names no part")
    return parts


def _damaged(source: str, what: str) -> ArtifactError:
    return ArtifactError(explain(f"the artifact is damaged: {what}.", source,
                                 "copy it again, or compile it again."))
