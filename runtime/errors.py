"""What can go wrong at run time, as three error classes with three-part messages.

`DeviceError`: an execution or an allocation failed (the text of the first failure is kept, however
long the chain of asynchronous calls behind it; what Python raised behind a fence comes out as it
was: `keep`).  `DeletedBufferError`: a donated or deleted buffer
was used.  `ArtifactError`: a .vmfb cannot be loaded here.  Imports nothing but the stdlib.
"""
from __future__ import annotations

import itertools
import re
import traceback
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType

# IREE prefixes its texts with a source position of its own; users need the sentence behind it.
_POSITION = re.compile(r"(?:[\w ]*: )?c/runtime/\S+?\.(?:c|cc|h):\d+: ")


_NAME = re.compile(r"calque failure \d+\.")


def explain(what: str, where: str = "", fix: str = "") -> str:
    """The three parts of a message, each on its own line."""
    lines = [what]
    if where:
        lines.append(f"  In {where}.")
    if fix:
        lines.append(f"  Fix: {fix}")
    return "\n".join(lines)


class DeviceError(RuntimeError):
    """An execution, a copy or an allocation on a device failed (calque.errors.JaxRuntimeError).

    Fails, for lack of memory::

        >>> import calque, calque.numpy as jnp
        >>> calque.jit(lambda x: jnp.broadcast_to(x, (2**50,)) + 1)(1.0)
        Traceback (most recent call last):
          ...
        DeviceError

    Mended, with an array that fits::

        >>> calque.jit(lambda x: jnp.broadcast_to(x, (2,)) + 1)(1.0)
        Array([2., 2.], dtype=float32, weak_type=True)
    """


class DeletedBufferError(RuntimeError):
    """A buffer was used after `delete()` or after it was donated.

    Fails::

        >>> import numpy as np
        >>> from calque import runtime
        >>> buffer = runtime.Buffer.from_numpy(np.ones(2), runtime.default_device())
        >>> buffer.delete()
        >>> buffer.numpy()
        Traceback (most recent call last):
          ...
        DeletedBufferError

    Mended, the value being read before::

        >>> buffer = runtime.Buffer.from_numpy(np.ones(2), runtime.default_device())
        >>> value = buffer.numpy()
        >>> buffer.delete()
        >>> value
        array([1., 1.])
    """


class ArtifactError(ValueError):
    """A compiled artifact cannot be loaded or called on this machine.

    Fails::

        >>> from calque import runtime
        >>> runtime.load(b"no artifact")
        Traceback (most recent call last):
          ...
        ArtifactError

    Mended, with the bytes of a compiled file::

        >>> import calque.aot, calque.numpy as jnp
        >>> compiled = calque.aot.compile(jnp.negative, "f32[2]")
        >>> list(runtime.load(compiled.vmfb).functions)
        ['negative']
    """


def clean(error: BaseException) -> str:
    """IREE's sentence without its own source positions."""
    return _POSITION.sub("", str(error)).strip()


# what work behind a fence raised, with its traceback (which grows at each raise)
_KEPT: OrderedDict[str, tuple[BaseException, TracebackType | None]] = OrderedDict()
_MOST_KEPT = 64
_numbers = itertools.count(1)


def keep(error: BaseException) -> str:
    """The text with which a fence is to fail, that `kept` finds the exception by; the text of one
    that came through another fence leads to the first."""
    error = kept(error) or error
    traceback.clear_frames(error.__traceback__)  # of the memory that they hold
    name = f"calque failure {next(_numbers)}."
    _KEPT[name] = error, error.__traceback__
    if len(_KEPT) > _MOST_KEPT:
        _KEPT.popitem(last=False)
    return f"{name} {type(error).__name__}: {error}"


def kept(failure: BaseException) -> BaseException | None:
    """The exception that a failure reported by IREE began with, with its traceback."""
    found = _NAME.search(str(failure)) if _KEPT else None
    error, trace = _KEPT.get(found[0], (None, None)) if found else (None, None)
    return None if error is None else error.with_traceback(trace)


def is_exhausted(error: BaseException) -> bool:
    """Whether a failure reported by IREE is a lack of memory."""
    text = str(error)
    return isinstance(error, MemoryError) or any(
        word in text for word in ("RESOURCE_EXHAUSTED", "failed to allocate", "OUT_OF_MEMORY"))


# () -> the line of the user's program that asks for the work at hand, or ""; set from above
asked_by: list[Callable[[], str]] = [lambda: ""]
_HASH = re.compile(r"\b[0-9a-f]{16,}\b")  # the name of a program that is one of many


def _place(where: str) -> str:
    """The user's line, and behind it what was at work."""
    what = _HASH.sub("a program", where) or "an allocation"
    line = asked_by[0]()
    return f"{line}: {what}" if line else what


def size_text(nbytes: int) -> str:
    """A number of bytes in the largest unit of which it is one at least.

    Example:
      >>> from calque.runtime import errors
      >>> errors.size_text(100), errors.size_text(4 * 10**12)
      ('100 bytes', '3.6 TiB')
    """
    for power, unit in ((60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"),
                        (10, "KiB")):
        if nbytes >= 1 << power:
            return f"{nbytes / 2**power:,.1f} {unit}"
    return f"{nbytes} bytes"


def device_error(error: BaseException, where: str = "", needed: str = "", fix: str = ""
                 ) -> BaseException:
    """The DeviceError that tells of a failure reported by IREE, its words kept, or the exception
    that it began with; `needed`: what was asked for, '4000 bytes' for example, where it is memory
    that is missing, and `fix` what helps against that."""
    if isinstance(error, DeviceError):
        return error
    first = kept(error)
    if first is not None:
        return first
    text = clean(error)
    if is_exhausted(error):
        return DeviceError(explain(
            f"RESOURCE_EXHAUSTED: out of memory{needed and f' allocating {needed}'}: {text}",
            _place(where),
            fix or "delete arrays that are no longer needed, donate arguments (donate_argnums), "
            "use smaller batches, or recompute with jax.checkpoint."))
    return DeviceError(f"{text}\n  In {where}." if where else text)


def deleted_error(shape: tuple[int, ...], dtype: object) -> DeletedBufferError:
    """The error for a use of a deleted array, in JAX's words."""
    dims = ",".join(str(d) for d in shape)
    return DeletedBufferError(
        f"Array has been deleted with shape={dtype}[{dims}].\n"
        "  Fix: it was donated to a call or deleted explicitly; keep the result of that call "
        "instead, or do not donate the argument.")
