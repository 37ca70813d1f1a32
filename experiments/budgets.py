"""ALL0CORE, CP, Tucker and NNTuck as the budget Q grows: how well does each predict held-out cells?

Usage: python experiments/budgets.py [DATA] [--full] [--out FOLDER]
"""

import typer
from setting import Data, Full, Out, Seed, folder_of, tensor_of

import allocore as ac


def main(data: Data = None, full: Full = False, out: Out = None, seed: Seed = 0) -> None:
    """Compare the four models over budgets and splits; write a table, figures and a report in words."""
    tensor = tensor_of(data, full, seed)
    print(tensor)
    budgets = (5, 10, 25, 50, 75, 100, 150, 200, 250, 300) if full else (5, 10, 25, 50, 100)
    schedule = {"burn_in": 1000, "draws": 200, "thin": 20} if full else {"burn_in": 300, "draws": 30, "thin": 5}
    search = {"restarts": 20, "max_iter": 1000} if full else {"restarts": 3, "max_iter": 200}
    found = ac.compare(
        tensor,
        budgets=budgets,
        splits=8 if full else 4,
        out=folder_of(out, "budgets", full),
        seed=seed,
        **schedule,
        **search,
    )
    print(found)


if __name__ == "__main__":
    typer.run(main)
