"""Says what a checkout without symbolic links lacks; what is installed stands in pyproject.toml."""
import os

import setuptools

for name in ("lowering", "runtime"):
    if not os.path.isdir(f"frontend/calque/{name}"):
        raise SystemExit(
            f"frontend/calque/{name} is not a folder: it is a link to ../../{name}, and this "
            "checkout has no symbolic links.\n  Fix: git config core.symlinks true && git "
            "checkout -f HEAD (Windows: switch on the developer mode first), or copy it there.")

setuptools.setup()
