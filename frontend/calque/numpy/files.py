"""Arrays in files and text: save, load, savez, fromfile, fromstring, array_repr, printoptions.

NumPy does the work; the formats are NumPy's.
"""
from __future__ import annotations

import contextlib
from typing import Any

import ml_dtypes
import numpy as np

from calque.core import dtypes
from calque.core.errors import explain
from calque.dispatch.array import Array, from_numpy
from calque.numpy import creation


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a .npy file.

    Args:
      file: path (".npy" is added where it is missing) or open binary file.
      arr: array.
      allow_pickle: as of numpy.save.

    Returns:
      None.

    Raises:
      OSError: the file cannot be written.

    Example:
      >>> import io, calque.numpy as jnp
      >>> file = io.BytesIO()
      >>> jnp.save(file, jnp.arange(3))
      >>> _ = file.seek(0)
      >>> jnp.load(file)
      Array([0, 1, 2], dtype=int32)
    """
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write several arrays to a .npz file.

    Args:
      file: path (".npz" is added where it is missing) or open binary file.
      *args: arrays, named arr_0, arr_1, ...
      allow_pickle: as of numpy.savez.
      **kwds: arrays by name.

    Returns:
      None.

    Raises:
      OSError: the file cannot be written.

    Example:
      >>> import io, calque.numpy as jnp, numpy as np
      >>> file = io.BytesIO()
      >>> jnp.savez(file, x=jnp.arange(3))
      >>> _ = file.seek(0)
      >>> jnp.load(file)["x"].shape
      (3,)
    """
    np.savez(file, *[np.asarray(a) for a in args], allow_pickle=allow_pickle,
             **{k: np.asarray(v) for k, v in kwds.items()})


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array from a .npy file; of a .npz file, what numpy.load returns.

    Args:
      file: path or open binary file.
      *args: as of numpy.load.
      **kwargs: as of numpy.load.

    Returns:
      An array.

    Raises:
      OSError: the file cannot be read.
      ValueError: it holds pickled objects.

    Example:
      >>> import io, calque.numpy as jnp
      >>> file = io.BytesIO()
      >>> jnp.save(file, jnp.ones(2))
      >>> _ = file.seek(0)
      >>> jnp.load(file)
      Array([1., 1.], dtype=float32)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):  # the file format has no name for bfloat16
        found = found.view(ml_dtypes.bfloat16)
    return creation.asarray(found)


def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "",
             offset: int = 0) -> Any:
    """Refused: reading a file is no pure function.

    Args:
      file: path.
      dtype: of the elements.
      count: how many to read.
      sep: between elements of text.
      offset: where to begin.

    Returns:
      Nothing.

    Raises:
      NotImplementedError: always.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fromfile("data.bin")
      Traceback (most recent call last):
      NotImplementedError: ...
    """
    raise NotImplementedError(explain(
        "jnp.fromfile() is not implemented because it may be non-pure and thus unsafe for use with "
        "JIT and other JAX transformations.",
        fix="use jnp.asarray(np.fromfile(...)), outside of transformations."))


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Any:
    """Refused: an iterator is used up, which is no pure function.

    Args:
      iter: iterable of elements.
      dtype: of the elements.
      count: how many to take.

    Returns:
      Nothing.

    Raises:
      NotImplementedError: always.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fromiter(range(3), int)
      Traceback (most recent call last):
      NotImplementedError: ...
    """
    raise NotImplementedError(explain(
        "jnp.fromiter() is not implemented because it may be non-pure and thus unsafe for use with "
        "JIT and other JAX transformations.",
        fix="use jnp.asarray(np.fromiter(...)), outside of transformations."))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """The numbers in a text.

    Args:
      string: the text.
      dtype: of the result.
      count: how many numbers to read; -1 for all.
      sep: what stands between them.

    Returns:
      A vector.

    Raises:
      ValueError: the text holds something else, or sep is empty.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fromstring("1, 2, 3", dtype=int, sep=",")
      Array([1, 2, 3], dtype=int32)
    """
    if not sep:
        raise ValueError(explain("fromstring: sep must not be empty.",
                                 fix="use jnp.frombuffer for binary data."))
    wide = np.dtype(dtype)
    return from_numpy(np.fromstring(string, dtype=wide, count=count, sep=sep).astype(
        dtypes.canonical(wide)))


# ---- text
def array_repr(arr: Any, max_line_width: int | None = None, precision: int | None = None,
               suppress_small: bool | None = None) -> str:
    """repr(arr), with options for this time.

    Args:
      arr: array.
      max_line_width: characters in a line.
      precision: digits after the point.
      suppress_small: show numbers near 0 as 0.

    Returns:
      The text.

    Raises:
      TypeError: arr is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array_repr(jnp.array([1.23456, 2.0]), precision=2)
      'Array([1.23, 2.  ], dtype=float32)'
    """
    with _options(max_line_width, precision, suppress_small):
        if isinstance(arr, Array):
            return repr(arr)
        return np.array_repr(np.asarray(arr))


def array_str(a: Any, max_line_width: int | None = None, precision: int | None = None,
              suppress_small: bool | None = None) -> str:
    """str(a), with options for this time.

    Args:
      a: array.
      max_line_width: characters in a line.
      precision: digits after the point.
      suppress_small: show numbers near 0 as 0.

    Returns:
      The text.

    Raises:
      TypeError: a is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array_str(jnp.array([1.23456, 2.0]), precision=2)
      '[1.23 2.  ]'
    """
    with _options(max_line_width, precision, suppress_small):
        return str(a)


def _options(width: int | None, precision: int | None,
             suppress: bool | None) -> contextlib.AbstractContextManager[Any]:
    given = {"linewidth": width, "precision": precision, "suppress": suppress}
    return np.printoptions(**{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]


def set_printoptions(**options: Any) -> None:
    """Set how arrays are printed (NumPy's options: they hold for both).

    Args:
      **options: precision, threshold, edgeitems, linewidth, suppress, ... as of
        numpy.set_printoptions.

    Returns:
      None.

    Raises:
      TypeError: an option is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> before = jnp.get_printoptions()["precision"]
      >>> jnp.set_printoptions(precision=before)
    """
    np.set_printoptions(**options)


def get_printoptions() -> Any:
    """How arrays are printed.

    Returns:
      A dict of NumPy's options.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.get_printoptions()["edgeitems"]
      3
    """
    return np.get_printoptions()


def printoptions(**options: Any) -> contextlib.AbstractContextManager[Any]:
    """A context in which arrays are printed in another way.

    Args:
      **options: as of set_printoptions.

    Returns:
      A context manager.

    Raises:
      TypeError: an option is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> with jnp.printoptions(precision=1):
      ...     print(jnp.array([1.234]))
      [1.2]
    """
    return np.printoptions(**options)


def iterable(y: Any) -> bool:
    """Whether one can iterate over y.

    Args:
      y: any object.

    Returns:
      A bool.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.iterable([1]), jnp.iterable(2)
      (True, False)
    """
    return np.iterable(y)


__all__ = ["array_repr", "array_str", "fromfile", "fromiter", "fromstring", "get_printoptions",
           "iterable", "load", "printoptions", "save", "savez", "set_printoptions"]
