"""A Program's way to a .vmfb: rewritten, written as MLIR, compiled or found on disk.

module.py    Program -> MLIR module: start here; flat.py: elementwise primitives of any shape
boundary.py  what a module's function takes and gives; refused.py: errors of equations
cache.py     the disk cache of compiled modules
attempts.py  another way of writing a program that IREE rejects
progress.py  says on a terminal that a compile takes long
"""
