"""Some random loops that write and read elements of arrays (support/fuzz_compose_writes; tests/
fuzz_compose.py runs any number), beside NumPy's."""
import numpy as np
import pytest
from support.fuzz_compose_writes import writes


@pytest.mark.parametrize("seed", range(8))
def test_as_numpy(seed: int) -> None:
    trial = writes(np.random.default_rng(seed))
    assert trial.act is not None
    wrong = trial.act()
    assert not wrong, f"{trial.told}\n{wrong}"
