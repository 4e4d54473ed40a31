"""Programs written for JAX, run unmodified: `jax` and `jaxlib` are calque's own modules.

    python -m calque.compat PROGRAM [args]      (also -m module, -c code, -, -i, nothing)
    import calque.compat; calque.compat.install()      before anything imports jax
    pytest -p calque.compat;  %load_ext calque.compat;  CALQUE_AS_JAX=1 python ...

Map:

  modules.py    which name of JAX's is which module of ours; the finder; install
  identity.py   what modules, types and functions say they are
  versions.py   the versions of libraries that were run
  private.py    the private modules that libraries touch, a few lines each
  addresses.py  public names at their private address, as editors import them
  libraries.py  more of them, by who needs them, and what is made for TPUs and GPUs alone

`python -m` runs its module __main__.

Start reading at modules.py.
"""
from calque.compat.modules import JAX_VERSION, install, installed

__all__ = ["JAX_VERSION", "install", "installed"]


def pytest_addoption(parser: object) -> None:
    """`pytest -p calque.compat`: the first thing that pytest calls of a plugin; no options."""
    install()


def load_ipython_extension(shell: object) -> None:
    """`%load_ext calque.compat`."""
    install()


def __dir__() -> list[str]:
    return [*__all__, "load_ipython_extension", "pytest_addoption"]
