"""What functions of trees have in common with functions of flat values, for libraries."""
from calque.extend.api_util import *  # noqa: F403
from calque.extend.api_util import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
