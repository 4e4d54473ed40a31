"""The errors of reading and writing exported functions.  Imports nothing of ours."""
from __future__ import annotations


class ExportError(ValueError):
    """A function cannot be exported, or an exported function cannot be used here.

    Example:
      >>> import calque
      >>> from calque import export
      >>> issubclass(export.DeserializationError, export.ExportError)
      True
    """


class DeserializationError(ExportError):
    """Bytes that are not, or no longer, what serialize wrote.

    Example:
      >>> import calque
      >>> from calque import export
      >>> try:
      ...     export.deserialize(b"no such thing")
      ... except export.DeserializationError as error:
      ...     print("not an exported function" in str(error))
      True
    """


class UnsupportedOperationError(ExportError, NotImplementedError):
    """An operation that has no portable form, or none here.

    Example:
      >>> import calque
      >>> from calque import export
      >>> issubclass(export.UnsupportedOperationError, NotImplementedError)
      True
    """
