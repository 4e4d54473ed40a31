"""setuptools' commands, named in pyproject.toml: a package with C kernels, a wheel with a true tag.

One file is for site-packages itself: calque_as_jax.pth, which Python reads as it starts.

They are loaded by their path, while the package is built.  Imports the standard library,
setuptools, and build.py by its path.
"""
from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from setuptools.command.bdist_wheel import bdist_wheel, get_platform
from setuptools.command.build_py import build_py

if TYPE_CHECKING:
    from calque.lowering.native import build
else:
    _spec = importlib.util.spec_from_file_location(
        "calque_build", Path(__file__).resolve().with_name("build.py"))
    build = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(build)


PTH = "calque_as_jax.pth"


class BuildKernels(build_py):
    """build_py that compiles the C kernels beside the modules (in place where editable), and takes
    the .pth file along."""

    def run(self) -> None:
        super().run()
        for line in build.build_objects(self.objects()):
            sys.stderr.write(f"calque: C kernel left out: {line}\n")
        top = self.get_finalized_command("install").install_lib if self.editable_mode \
            else self.build_lib  # (what is there is copied into site-packages either way)
        Path(top).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(self.get_package_dir(""), PTH), Path(top, PTH))

    def objects(self) -> Path:
        """Where the objects of this build lie."""
        place = build.HERE if self.editable_mode else Path(self.build_lib, "calque/lowering/native")
        return place / "objects"


class Wheel(bdist_wheel):
    """bdist_wheel whose tag says `any` only where the objects of every level are in it."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        folder = self.get_finalized_command("build_py").objects()
        if all((folder / name).exists() for name in build.expected()):
            return python, abi, platform
        return python, abi, get_platform(self.bdist_dir).replace("-", "_").replace(".", "_")
