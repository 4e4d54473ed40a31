"""C kernels that are linked into artifacts for CPU targets; README.md tells their conventions.

  toolchain.py   which compiler makes objects for which architecture, with which flags
  build.py       the objects of every level; commands.py: setuptools' commands around it
  elf.py         reads objects
  exporter.py    arrays' buffer protocol on Python 3.11 (python/exporter.c)
"""
