"""Names for the types of arrays that kernels take."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.uint32]
Flags: TypeAlias = NDArray[np.bool_]
