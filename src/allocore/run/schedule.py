"""The length of a chain, and which of its sweeps are kept as draws."""

from dataclasses import dataclass

from allocore.errors import whole_number

# Sweeps for each draw of a fit when rows that it has not seen are drawn given the rest. After so many, the mean of a
# new row was within a tenth of its standard deviation of where it settles, on ICEWS by month: after 30 for a month,
# after 50 for the United States, a row of 36,000 counts.
SWEEPS_OF_NEW_ROWS = 50


@dataclass(frozen=True)
class Schedule:
    """`burn_in` sweeps are discarded, then every `thin`-th sweep is kept until there are `draws` draws."""

    burn_in: int = 1000
    draws: int = 200
    thin: int = 20

    def __post_init__(self) -> None:
        for name, least in (("burn_in", 0), ("draws", 1), ("thin", 1)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least=least))

    @property
    def sweeps(self) -> int:
        """The number of sweeps of a whole chain."""
        return self.burn_in + self.draws * self.thin

    def draw_of(self, sweep: int) -> int | None:
        """The number of the draw that sweep 1, 2, .. gives, or None if it is not kept."""
        kept, rest = divmod(sweep - self.burn_in, self.thin)
        return kept - 1 if rest == 0 and kept > 0 else None

    def draws_after(self, sweep: int) -> int:
        """The number of draws after `sweep` sweeps."""
        return max(0, (sweep - self.burn_in) // self.thin)

    def sweep_of(self, draw: int) -> int:
        """The sweep that gives a draw."""
        return self.burn_in + (draw + 1) * self.thin
