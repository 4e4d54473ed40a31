"""Trees (nested tuples, lists, dicts, registered classes) under the names of jax.tree_util."""
from calque.trees.util import *  # noqa: F403
from calque.trees.util import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
