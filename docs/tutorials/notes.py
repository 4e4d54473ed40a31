"""Short notes: updates, donation, static values, nested maps, devices, convolutions.

Lines that begin with #> are what the statement above them prints, up to rounding of the last digit;
tests/docs/test_tutorials.py runs this file and compares.
"""
import numpy as np

import calque
import calque.numpy as jnp
import calque.scipy as jsp
from calque import lax

# ---- updates of elements return new arrays
x = jnp.array([4.0, 9.0, 16.0])
print(x.at[1].set(2), x.at[1].add(2), x.at[1].multiply(2), x.at[1].divide(2))
#> [ 4.  2. 16.] [ 4. 11. 16.] [ 4. 18. 16.] [ 4.   4.5 16. ]
print(x.at[1].power(2), x.at[1].min(2), x.at[1].max(20), x.at[1].apply(jnp.sqrt), x.at[1].get())
#> [ 4. 81. 16.] [ 4.  2. 16.] [ 4. 20. 16.] [ 4.  3. 16.] 9.0

# ---- outside: reads take the nearest element, writes are dropped, unless told otherwise
print(x[10], x.at[10].set(0.0), x.at[10].get(mode="fill", fill_value=-1))
#> 16.0 [ 4.  9. 16.] -1.0

# ---- a donated argument gives its memory to the result
a, b = (calque.device_put(np.ones((2, 3), np.float32)) for _ in range(2))
c = calque.jit(lambda x, y: x + y, donate_argnums=(1,))(a, b)
print(c.sum(), a.is_deleted(), b.is_deleted())
#> 12.0 False True

# ---- nested maps, one per axis
print(calque.vmap(calque.vmap(lambda x: x * 2))(jnp.arange(6.0).reshape(2, 3)))
#> [[ 0.  2.  4.]
#>  [ 6.  8. 10.]]

# ---- processes and devices
print(calque.process_index(), calque.process_count(), len(calque.local_devices()) >= 1)
#> 0 1 True
print(set(calque.local_devices()) <= set(calque.devices()))
#> True

# ---- convolutions in numpy, scipy and lax
print(jnp.convolve(jnp.linspace(0, 1, 6), jnp.ones(3) / 3, mode="same"))
#> [0.06666667 0.2        0.4        0.6        0.8        0.6       ]
print(jsp.signal.convolve(jnp.ones((3, 3)), jnp.ones((2, 2)), mode="same"))
#> [[1. 2. 2.]
#>  [2. 4. 4.]
#>  [2. 4. 4.]]
print(lax.conv(jnp.ones((1, 1, 4, 4)), jnp.ones((1, 1, 3, 3)), (1, 1), "SAME")[0, 0])
#> [[4. 6. 6. 4.]
#>  [6. 9. 9. 6.]
#>  [6. 9. 9. 6.]
#>  [4. 6. 6. 4.]]
