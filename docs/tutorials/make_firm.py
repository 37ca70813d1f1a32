"""An invented law firm: sixty people, and who is tied to whom by work, advice, mail and friendship."""

import numpy as np
import pandas as pd

FIRST_NAMES = (
    "Ada Alan Amir Anna Ben Carla Chen Clara Dan Dora Elif Emil Emma Erik Eva Farid Felix Flora Grace Greta "
    "Hana Hugo Ida Igor Ines Iris Ivan Jack Jana Joel Juan Karl Kenji Kira Lara Lena Leo Lina Luca Maja "
    "Marco Marta Mila Nadia Nils Nora Olga Omar Otto Paul Petra Rosa Sami Sara Sofia Tara Theo Vera Yara Zoe"
)
NAMES = FIRST_NAMES.split()
# From one practice to another: who asks whom for advice.
ASKS = {("litigation", "tax"), ("corporate", "tax"), ("corporate", "litigation")}


def make_firm(seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The people with their practice and office, and their ties: one row for each, from one person to another."""
    rng = np.random.default_rng(seed)
    n = len(NAMES)
    practice = rng.permutation(np.repeat(["litigation", "corporate", "tax"], n // 3))
    office = rng.permutation(np.repeat(["north", "south"], n // 2))
    people = pd.DataFrame({"practice": practice, "office": office}, index=pd.Index(NAMES, name="person"))

    same_practice, same_office = practice[:, None] == practice, office[:, None] == office
    asks = np.array([[(sender, receiver) in ASKS for receiver in practice] for sender in practice])
    probability = {
        "cowork": np.where(same_practice, 0.3, 0.01),
        "advice": np.where(asks, 0.25, 0.01),
        "mail": np.where(same_practice | asks, 0.25, 0.01),
        "friendship": np.where(same_office, 0.3, 0.01),
    }
    ties = []
    for layer, chance in probability.items():
        tied = rng.random((n, n)) < chance
        np.fill_diagonal(tied, val=False)
        sender, receiver = np.nonzero(tied)
        ties.append(pd.DataFrame({"from": people.index[sender], "to": people.index[receiver], "layer": layer}))
    return people, pd.concat(ties, ignore_index=True)
