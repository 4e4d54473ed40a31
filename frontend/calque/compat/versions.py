"""The versions of libraries that were run with calque, as tests/clients/requirements.txt has them.

A library that is imported in another version is warned of, once: see `check`.
"""
from __future__ import annotations

import importlib.metadata
import warnings

# what is imported -> (its distribution, the version that was run)
RUN = {
    "blackjax": ("blackjax", "1.7.1"), "chex": ("chex", "0.1.92"), "diffrax": ("diffrax", "0.7.2"),
    "equinox": ("equinox", "0.13.8"), "flax": ("flax", "0.12.8"), "haiku": ("dm-haiku", "0.0.17"),
    "jaxopt": ("jaxopt", "0.8.5"), "jaxtyping": ("jaxtyping", "0.3.11"),
    "lineax": ("lineax", "0.1.1"), "numpyro": ("numpyro", "0.22.0"), "optax": ("optax", "0.2.8"),
    "optimistix": ("optimistix", "0.1.0")}
_seen: set[str] = set()


def check(module: str) -> None:
    """Warn where the library that is about to be imported has another version than was run."""
    if module not in RUN or module in _seen:
        return
    _seen.add(module)
    name, wanted = RUN[module]
    try:
        have = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return
    if have != wanted:
        warnings.warn(
            f"calque.compat: {name} {have} was not run with calque; {wanted} was.\n"
            f"  Fix: pip install --no-deps {name}=={wanted}, where what you see differs from JAX.",
            stacklevel=2)


__all__ = ["RUN", "check"]
