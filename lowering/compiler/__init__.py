"""IREE's compiler: MLIR in, .vmfb out.

compile.py            flags, errors, and what compiles a module: start here
process.py            asks server.py, IREE's compiler in a process of its own
stream_module.py      programs that are kernels of ours alone skip IREE's first stages
host_module.py        the host's part of such programs
link.py               dispatches are linked in the compiler's process, by elf_link.py
branch_moves.py       cures of the code that IREE makes for loops on the host
gpu_configuration.py  into what blocks IREE's kernels for CUDA are cut
folders.py            where caches and temporary files lie
"""
