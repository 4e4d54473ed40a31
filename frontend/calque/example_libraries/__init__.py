"""Two small libraries that JAX carries as examples: optimizers.py (schedules.py), stax.py."""
from calque.example_libraries import optimizers as optimizers
from calque.example_libraries import stax as stax

__all__ = ["optimizers", "stax"]


def __dir__() -> list[str]:
    return __all__
