"""The IR checker runs between passes in all tests (CALQUE_CHECK=1, read at import)."""
from __future__ import annotations

import gc
import os

os.environ["CALQUE_CHECK"] = "1"
import signal  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started by a shell in the background: what
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests start would inherit it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sentinels are slow tests: IREE is pinned, so what it still does changes with its version
    (docs/iree.md), or with the CPU."""
    for item in items:
        if item.name.startswith("test_iree_still_"):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was imported is looked at no more by the garbage collector, which tests call often."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def host_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loops in their portable form: no kernels."""
    import calque
    from calque.lowering.passes import loops
    calque.clear_caches()
    monkeypatch.setattr(loops, "enabled", False)
    yield
    calque.clear_caches()


@pytest.fixture
def loops_over_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No loop of small arrays runs number by number."""
    import calque
    from calque.lowering.passes import registers
    calque.clear_caches()
    monkeypatch.setattr(registers, "enabled", False)
    yield
    calque.clear_caches()


@pytest.fixture(scope="session")
def gpu() -> Any:
    """The device of the tests marked vulkan: the first Vulkan device, or of the platform that
    CALQUE_TEST_GPU names (cuda)."""
    import calque
    try:
        return calque.devices(os.environ.get("CALQUE_TEST_GPU", "vulkan"))[0]
    except RuntimeError as error:
        pytest.skip(f"no such device here: {str(error).splitlines()[0]}")


@pytest.fixture
def x64() -> Iterator[None]:
    """64-bit dtypes are kept."""
    import calque
    with calque.enable_x64(True):
        yield
