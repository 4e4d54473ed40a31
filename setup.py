"""Says what a checkout or a Python lacks; what is installed stands in pyproject.toml."""
import os
import sys

import setuptools

if sys.version_info < (3, 11):  # noqa: UP036  (who installs from here may have an older one)
    raise SystemExit(
        f"calque needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]}.\n  Fix: "
        "install a newer one and make the environment with it (python3.11 -m venv .venv; "
        "make PYTHON=python3.11 ...).")

for name in ("lowering", "runtime"):
    if not os.path.isdir(f"frontend/calque/{name}"):
        raise SystemExit(
            f"frontend/calque/{name} is not a folder: it is a link to ../../{name}, and this "
            "checkout has no symbolic links.\n  Fix: git config core.symlinks true && git "
            "checkout -f HEAD (Windows: switch on the developer mode first), or copy it there.")

setuptools.setup()
