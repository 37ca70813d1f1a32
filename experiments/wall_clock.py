"""Prediction against time: ALL0CORE with a small and a large core and growing Q, beside Tucker with a full core.

Usage: python experiments/wall_clock.py [DATA] [--full] [--out FOLDER]
"""

import typer
from setting import Data, Full, Out, Seed, fitting, folder_of, tensor_of

import allocore as ac

SMALL, LARGE = (20, 20, 6, 3), (50, 50, 6, 10)


def main(data: Data = None, full: Full = False, out: Out = None, seed: Seed = 0) -> None:
    """Compare cores over budgets and splits; write a table, figures and a report in words."""
    tensor = tensor_of(data, full, seed)
    print(tensor)
    small, large = fitting(SMALL, tensor), fitting(LARGE, tensor)
    whole = small if full else fitting((6, 6, 3, 2), tensor)
    schedule = {"burn_in": 1000, "draws": 200, "thin": 20} if full else {"burn_in": 150, "draws": 20, "thin": 5}
    settings = {**schedule, "likelihood": "poisson", "chains": 1}
    found = ac.compare(
        tensor,
        {
            "allocore": [ac.AlloCore(core_shape=core, **settings) for core in (small, large)],
            "tucker": ac.Tucker(whole, **settings),
        },
        budgets=(5, 10, 25, 50, 100, 200, 300, 400) if full else (5, 25, 50, 100),
        splits=8 if full else 2,
        out=folder_of(out, "wall_clock", full),
        seed=seed,
    )
    print(found)


if __name__ == "__main__":
    typer.run(main)
