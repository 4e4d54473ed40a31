"""Which public names the API fuzzer draws, and why not the others (see fuzz_api.py)."""
from __future__ import annotations

from types import ModuleType

import calque
from calque import lax, nn, ops, random, scipy
from support.fuzz_api_draw import RECIPES
from support.fuzz_api_numpy import NOT_DRAWN

MODULES: dict[str, ModuleType] = {
    "jnp": calque.numpy, "jnp.linalg": calque.numpy.linalg, "jnp.fft": calque.numpy.fft, "lax": lax,
    "lax.linalg": lax.linalg, "nn": nn, "nn.initializers": nn.initializers, "random": random,
    "jsp.special": scipy.special, "jsp.linalg": scipy.linalg, "jsp.signal": scipy.signal,
    "ops": ops, "jax": calque}


def public(prefix: str) -> list[str]:
    """Names of a module that are functions or values, modules left out."""
    module = MODULES[prefix]
    return [n for n in dir(module) if not n.startswith("_")
            and not isinstance(getattr(module, n), ModuleType)]


def missing() -> list[str]:
    """Public names that have neither a recipe nor a reason."""
    return [f"{p}.{n}" for p in MODULES for n in public(p)
            if f"{p}.{n}" not in RECIPES and f"{p}.{n}" not in NOT_DRAWN]


def table() -> str:
    """Names drawn per module, and the reasons of the others."""
    rows = []
    for p in MODULES:
        names = public(p)
        drawn = [n for n in names if f"{p}.{n}" in RECIPES]
        rows.append(f"{p}: {len(drawn)} of {len(names)} names drawn")
    reasons: dict[str, list[str]] = {}
    for name, why in NOT_DRAWN.items():
        reasons.setdefault(why, []).append(name)
    rows += [f"not drawn: {why}: {' '.join(names)}" for why, names in reasons.items()]
    return "\n".join([*rows, f"without a recipe or a reason: {missing()}"])
