"""scipy.sparse: what needs no sparse arrays.  linalg.py: cg, bicgstab; gmres.py; vectors.py: trees
as vectors, and what the solvers check."""
from calque.scipy.sparse import linalg as linalg

__all__ = ["linalg"]


def __dir__() -> list[str]:
    return __all__
