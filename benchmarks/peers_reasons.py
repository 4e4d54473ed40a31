"""Why a workload takes more than 1.3 times the best peer's time, as far as it is known, with the
means by which it was found; benchmarks/peers.py puts them under its table."""
from __future__ import annotations

REASONS: dict[str, str] = {
}
