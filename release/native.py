"""calque-native: the C++ library on IREE's C runtime, as a wheel (docs/native.md tells each step).

    python release/native.py --iree PREFIX                   an IREE runtime that is installed there
    python release/native.py --iree-source FOLDER            IREE's sources: builds that first

Its Python has what release/requirements-native.txt names.  Nothing of IREE's is kept in the
repository.  Start reading at `main`.
"""
from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DRIVERS = ("local-sync", "local-task", "vulkan", "cuda")
SUBMODULES = {"third_party/flatcc": True, "third_party/vulkan_headers": False}  # needed always?


class Unfit(Exception):
    """What is given cannot be built."""


def run(*words: str | Path, cwd: Path | None = None) -> None:
    """Run a command, said before; Unfit where it fails."""
    sys.stderr.write(f"$ {shlex.join(map(str, words))}\n")
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    command = shutil.which(str(words[0]), path=path)
    if command is None:
        raise Unfit(f"there is no {words[0]}.\n  Fix: pip install -r "
                    "release/requirements-native.txt")
    done = subprocess.run([command, *map(str, words[1:])], cwd=cwd, check=False, stdout=sys.stderr,
                          env={**os.environ, "PATH": path})
    if done.returncode:
        raise Unfit(f"{words[0]} failed with exit status {done.returncode}: what it said is above.")


def switches(drivers: Sequence[str]) -> list[str]:
    """How IREE's runtime is configured: nothing but it, and the drivers that are wanted."""
    unknown = set(drivers) - set(DRIVERS)
    if unknown:
        raise Unfit(f"there is no driver {', '.join(sorted(unknown))}.\n  Fix: name some of "
                    f"{', '.join(DRIVERS)}.")
    off = ("BUILD_COMPILER", "BUILD_TESTS", "BUILD_SAMPLES", "BUILD_BENCHMARKS",  # (on without
           "BUILD_BINDINGS_TFLITE", "ENABLE_CPUINFO", "ENABLE_LIBBACKTRACE",      # tests)
           "ENABLE_WERROR_FLAG", "HAL_DRIVER_DEFAULTS", "ERROR_ON_MISSING_SUBMODULES")
    return [*[f"-DIREE_{name}=OFF" for name in off],
            *[f"-DIREE_HAL_DRIVER_{name.upper().replace('-', '_')}=ON" for name in drivers],
            "-DCMAKE_BUILD_TYPE=Release"]


def build_iree(source: Path, work: Path, drivers: Sequence[str], jobs: int) -> Path:
    """Configure, build and install IREE's runtime; the folder that it is installed in.

    Its install rules build nothing, and give way to the root of the file system where not all of
    prefix, libraries' and headers' folders are named.
    """
    for name, always in SUBMODULES.items():
        folder = source / name
        if (always or "vulkan" in drivers) and not (folder.is_dir() and any(folder.iterdir())):
            raise Unfit(f"{source} lacks {name}.\n  Fix: git -C {source} submodule update --init "
                        f"{name}" + ("" if always else ", or leave vulkan out (--drivers)"))
    build, prefix = work / "iree-build", work / "iree"
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, *switches(drivers),
        f"-DCMAKE_INSTALL_PREFIX={prefix}", "-DCMAKE_INSTALL_LIBDIR=lib",
        "-DCMAKE_INSTALL_INCLUDEDIR=include")
    run("cmake", "--build", build, "--parallel", str(jobs))
    run("cmake", "--build", build, "--target", "iree-install-dev-libraries")
    if not find_iree(prefix):
        raise Unfit(f"IREE's runtime was installed, but not in {prefix}.\n  Fix: look for "
                    "IREERuntimeConfig.cmake, and give its prefix as --iree.")
    return prefix


def find_iree(prefix: Path) -> list[Path]:
    return sorted(prefix.glob("**/IREERuntimeConfig.cmake"))


def build_wheel(out: Path, work: Path, iree: Path) -> Path:
    """The wheel of runtime/cpp, tagged for this platform."""
    made = work / "native-wheel"
    shutil.rmtree(made, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
        "--disable-pip-version-check", "-w", made, f"-Ccmake.define.CMAKE_PREFIX_PATH={iree}",
        ROOT / "runtime/cpp")
    (wheel,) = made.glob("*.whl")
    check(wheel)
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(wheel, out / wheel.name))


def check(wheel: Path) -> None:
    """It has the library, every public header, the CMake package, and nothing of IREE's."""
    headers = {f"calque_native/prefix/include/calque/{p.name}"
               for p in (ROOT / "runtime/cpp/include/calque").iterdir()}
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    installed = {n for n in names if n.startswith("calque_native/prefix/")}
    cmake = {n for n in installed if n.startswith("calque_native/prefix/lib/cmake/calque/calque-")}
    libraries = {n for n in installed if "calque_runtime" in Path(n).name}  # (two on Windows)
    if headers - installed or len(cmake) < 4 or not libraries:
        raise Unfit(f"{wheel.name} holds {sorted(installed)}")
    if rest := installed - headers - cmake - libraries:
        raise Unfit(f"{wheel.name} should not hold {sorted(rest)[:10]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="build the wheel calque-native")
    parser.add_argument("--iree", type=Path, help="where an IREE runtime is installed")
    parser.add_argument("--iree-source", type=Path, help="IREE's sources, to build it of")
    parser.add_argument("--drivers", default="local-sync,local-task,vulkan")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=ROOT / "build/native")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    try:
        iree, work = given.iree and given.iree.resolve(), given.work.resolve()
        if given.iree_source is not None:
            iree = build_iree(given.iree_source.resolve(), work, given.drivers.split(","),
                              given.jobs)
        if iree is None or not find_iree(iree):
            raise Unfit(f"there is no IREE runtime in {iree or 'any folder that was named'}.\n"
                        "  Fix: give --iree PREFIX, which holds IREERuntimeConfig.cmake, or "
                        "--iree-source (docs/native.md).")
        print(build_wheel(given.out, work, iree))
    except Unfit as error:
        sys.stderr.write(f"native: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
