"""Small tensors with missing cells and labels, and their missing cells as a plain array."""

import math

import numpy as np
from hypothesis import strategies as st

import allocore as ac


def dense_mask(Y):
    """Which cells are missing, as an array of the tensor's shape."""
    mask = np.zeros(Y.shape, dtype=bool)
    for pattern in Y.missing:
        mask[tuple(slice(None) if place is None else place for place in pattern)] = True
    return mask


def patterns_for(shape, max_size=6):
    """Lists of missing patterns."""
    return st.lists(st.tuples(*[st.none() | st.integers(0, length - 1) for length in shape]), max_size=max_size)


@st.composite
def labelled_tensors(draw, most=4):
    """Tensors of up to four modes; some have labels, in any order, and some cells are missing."""
    shape = tuple(draw(st.integers(1, most)) for _ in range(draw(st.integers(2, 4))))
    volume = math.prod(shape)
    counts = np.frombuffer(draw(st.binary(min_size=volume, max_size=volume)), np.uint8) % 4
    dense, patterns = counts.astype(int).reshape(shape), draw(patterns_for(shape))
    mask = np.zeros(shape, dtype=bool)
    for pattern in patterns:
        mask[tuple(slice(None) if place is None else place for place in pattern)] = True
    if not dense[~mask].any():
        dense, patterns = np.ones(shape, dtype=int), []
    labels = [draw(st.none() | st.permutations("pqrstuvw"[:length])) for length in shape]
    names = [f"m{place}" for place in range(len(shape))]
    return ac.as_tensor(dense, mode_names=names, labels=labels).with_missing(patterns)
