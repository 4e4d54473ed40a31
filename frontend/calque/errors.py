"""The error classes users catch; each class's docstring shows a failing and a mended program."""
from calque.core.checker import ProgramError as JaxprTypeError
from calque.core.errors import (
    ConcretizationTypeError as ConcretizationTypeError,
)
from calque.core.errors import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
)
from calque.core.errors import (
    JAXIndexError as JAXIndexError,
)
from calque.core.errors import (
    JAXTypeError as JAXTypeError,
)
from calque.core.errors import (
    KeyReuseError as KeyReuseError,
)
from calque.core.errors import (
    NonConcreteBooleanIndexError as NonConcreteBooleanIndexError,
)
from calque.core.errors import (
    TracerArrayConversionError as TracerArrayConversionError,
)
from calque.core.errors import (
    TracerBoolConversionError as TracerBoolConversionError,
)
from calque.core.errors import (
    TracerIntegerConversionError as TracerIntegerConversionError,
)
from calque.core.errors import (
    TypePromotionError as TypePromotionError,
)
from calque.core.errors import (
    UnexpectedTracerError as UnexpectedTracerError,
)
from calque.runtime.errors import DeviceError as JaxRuntimeError

__all__ = ["ConcretizationTypeError", "InconclusiveDimensionOperation", "JAXIndexError",
           "JAXTypeError", "JaxRuntimeError", "JaxprTypeError", "KeyReuseError",
           "NonConcreteBooleanIndexError", "TracerArrayConversionError",
           "TracerBoolConversionError", "TracerIntegerConversionError", "TypePromotionError",
           "UnexpectedTracerError"]

for _name in __all__:  # as tracebacks show them
    if _name not in ("JaxRuntimeError", "JaxprTypeError"):
        globals()[_name].__module__ = "calque.errors"


def __dir__() -> list[str]:
    return __all__
