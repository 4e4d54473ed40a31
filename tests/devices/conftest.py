"""Eight CPU devices, set before their first use: these tests are a pytest command of their own
(python -m pytest tests/devices); a run of all tests does not enter this folder."""
from __future__ import annotations

import calque

calque.config.update("jax_num_cpu_devices", 8)
