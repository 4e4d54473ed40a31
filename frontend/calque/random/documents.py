"""What the distributions share: the parts of their docstrings, and that eager calls are planned."""
from __future__ import annotations

from calque.core.types import Function
from calque.dispatch.replay import planned
from calque.dispatch.sharded.placing import resharding

_TEXT = """{sentence}

    Args:
      key: a PRNG key.
{params}{shape}{dtype}{sharding}
    Returns:
      {returns}

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys{values}.
{raises}
    Example:
      >>> import calque.random as random{imports}
      >>> key = random.PRNGKey(0)
      >>> {show}
      {prints}
    """


def document(sentence: str, params: str, example: str, prints: str, *, raises: str = "",
             shape: str = "of the result", kind: str = "float dtype (default float32, float64 "
             "with x64)", returns: str = "An array of that shape and dtype.",
             digits: int | None = None) -> Function:
    """Give a function its docstring (an example is rounded to `digits`) and plans of its calls."""
    def decorate(f: Function) -> Function:
        names = f.__code__.co_varnames
        call = f"random.{example}"
        show = f"print({call})" if digits is None else f"print({call}.round({digits}))"
        f.__doc__ = _TEXT.format(
            sentence=sentence, params=f"      {params}\n" if params else "",
            shape=f"      shape: {shape}.\n" if "shape" in names else "",
            dtype=f"      dtype: {kind}.\n" if kind and "dtype" in names else "",
            sharding="      out_sharding: of the result, over Explicit axes (NamedSharding or "
                     "PartitionSpec).\n"
            if "out_sharding" in names else "",
            returns=returns, values=", or dtype is no such dtype" if kind else "",
            raises=f"      {raises}\n" if raises else "", show=show,
            imports="\n      >>> import numpy as np" if "np." in example else "", prints=prints)
        return resharding(planned(f)) if "out_sharding" in names else planned(f)
    return decorate
