"""python -m calque_native: prints the folder for CMAKE_PREFIX_PATH."""
from calque_native import prefix

print(prefix())
