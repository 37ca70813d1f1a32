"""Nonnegative einsum factorisation by multiplicative updates (Hood and Schein, arXiv 2602.02759), on the non-zeros.

The rate of a cell is an einsum of nonnegative operands, such as "ir,jr,kr->ijk" for CP. One operand after another is
updated for the KL divergence:

    theta <- theta * [sum over cells of (y / rate) d rate / d theta] / [sum over cells of d rate / d theta]

The numerator needs only the cells with counts. In the denominator, the sum over all cells is an einsum of the sums of
the operands over their rows. So an update costs as much as the non-zeros, whatever the number of cells. An operand has
at most one index of the tensor, its first.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

BLOCK = 20_000
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Einsum:
    """The operands of a model, each as its indices: upper case for a mode of the tensor, lower case for latent ones."""

    operands: tuple[str, ...]
    latent: dict[str, int]

    @classmethod
    def cp(cls, modes: int, rank: int) -> "Einsum":
        """One component for all modes."""
        return cls(tuple(f"{_mode(m)}r" for m in range(modes)), {"r": rank})

    @classmethod
    def custom(cls, shape: tuple[int, ...], rank: int, communities: int) -> "Einsum":
        """Communities in the two longest modes and components of the others, joined by a core of three indices."""
        first, second = sorted(sorted(range(len(shape)), key=lambda m: -shape[m])[:2])
        index = {first: "c", second: "d"}
        operands = tuple(f"{_mode(m)}{index.get(m, 'r')}" for m in range(len(shape)))
        return cls((*operands, "cdr"), {"c": communities, "d": communities, "r": rank})

    def start(self, shape: tuple[int, ...], total: float, rng: np.random.Generator) -> list[np.ndarray]:
        """Random operands whose rates add up to the total of the counts."""
        sizes = {_mode(m): length for m, length in enumerate(shape)} | self.latent
        values = [rng.uniform(0.5, 1.5, [sizes[index] for index in operand]) for operand in self.operands]
        whole = np.einsum(*_arguments(self.operands, values), [])
        return [value * (total / whole) ** (1 / len(values)) for value in values]

    def rates(self, values: list[np.ndarray], coords_MN: np.ndarray) -> np.ndarray:
        """The rates of some cells."""
        found = np.empty(coords_MN.shape[1])
        for block, gathered, names in self._blocks(values, coords_MN):
            found[block] = np.einsum(*_arguments(names, gathered), [25], optimize=True)
        return found

    def update(self, values: list[np.ndarray], coords_MN: np.ndarray, counts_N: np.ndarray) -> list[np.ndarray]:
        """Update every operand in turn."""
        values = list(values)
        for place in range(len(self.operands)):
            above, below = self._above(values, place, coords_MN, counts_N), self._below(values, place)
            values[place] = values[place] * above / np.maximum(below, TINY)
        return values

    def _above(self, values: list[np.ndarray], place: int, coords_MN: np.ndarray, counts_N: np.ndarray) -> np.ndarray:
        """The numerator: a sum over the cells with counts."""
        operand, found = self.operands[place], np.zeros(values[place].shape)
        mode = _place(operand)
        for block, gathered, names in self._blocks(values, coords_MN):
            rate_n = np.einsum(*_arguments(names, gathered), [25], optimize=True)
            others = [*gathered[:place], *gathered[place + 1 :], counts_N[block] / np.maximum(rate_n, TINY)]
            wanted = operand if mode is None else f"z{operand[1:]}"
            arguments = _arguments([*names[:place], *names[place + 1 :], "z"], others)
            part = np.einsum(*arguments, _numbers(wanted), optimize=True)
            if mode is not None:
                rows_n, number = coords_MN[mode, block], len(part)
                shape = (len(found), number)
                part = csr_array((np.ones(number), (rows_n, np.arange(number))), shape=shape) @ part
            found += part
        return found

    def _below(self, values: list[np.ndarray], place: int) -> np.ndarray:
        """The denominator: a sum over all cells, the same for all rows of an operand with a mode."""
        summed, names = [], []
        for number, (operand, value) in enumerate(zip(self.operands, values, strict=True)):
            if number != place:
                summed.append(value if _place(operand) is None else value.sum(axis=0))
                names.append(operand if _place(operand) is None else operand[1:])
        operand = self.operands[place]
        wanted = operand if _place(operand) is None else operand[1:]
        return np.einsum(*_arguments(names, summed), _numbers(wanted), optimize=True)

    def _blocks(self, values: list[np.ndarray], coords_MN: np.ndarray):
        """Blocks of cells, with the rows of the operands there; z is the index of the cells."""
        names = [operand if _place(operand) is None else f"z{operand[1:]}" for operand in self.operands]
        for first in range(0, coords_MN.shape[1], BLOCK):
            block = slice(first, first + BLOCK)
            gathered = [
                value if _place(operand) is None else value[coords_MN[_place(operand), block]]
                for operand, value in zip(self.operands, values, strict=True)
            ]
            yield block, gathered, names


def _mode(number: int) -> str:
    return chr(ord("A") + number)


def _place(operand: str) -> int | None:
    """The mode of an operand; None if it has only latent indices."""
    return ord(operand[0]) - ord("A") if operand[0].isupper() else None


def _numbers(indices: str) -> list[int]:
    return [ord(index) - ord("a") if index.islower() else 26 + ord(index) - ord("A") for index in indices]


def _arguments(names, values) -> list:
    """Operands and their indices, as np.einsum takes them."""
    return [each for name, value in zip(names, values, strict=True) for each in (value, _numbers(name))]
