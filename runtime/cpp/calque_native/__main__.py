"""python -m calque_native: prints the folder for CMAKE_PREFIX_PATH."""
from . import prefix

print(prefix())
