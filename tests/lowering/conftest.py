"""These tests look at what IREE compiles: small programs are not one kernel of ours here."""
from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def by_iree(request: pytest.FixtureRequest) -> Iterator[None]:
    import calque
    from calque.lowering.passes import cost
    if request.module.__name__.endswith(("test_whole", "test_stream_module")):
        yield
        return
    calque.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "WHOLE_WORK", -1)
        yield
    calque.clear_caches()
