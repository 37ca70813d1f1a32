"""
A motif
=======

A pattern of classes that recurs between different actors: the same cadence in several wars.
"""

import numpy as np

import allocore as ac

# Four wars, planted: a fights b, and b protests. Eight neutral countries trade with others, and visit them.
rng = np.random.default_rng(0)
countries = [f"{side} {war}" for war in (1, 2, 3, 4) for side in ("attacker", "defender")]
countries += [f"neutral {n}" for n in range(1, 9)]
actions = ["Fight", "Protest", "Trade", "Visit"]
months = [f"{year}-{month:02d}" for year in (2001, 2002, 2003, 2004) for month in range(1, 13)]
rates = np.full((16, 16, 4, 48), 0.002)
for war in range(4):
    start, attacker, defender = 12 * war + 3, 2 * war, 2 * war + 1
    rates[attacker, defender, 0, start : start + 3] += 60.0
    rates[defender, attacker, 1, start : start + 3] += 50.0
for neutral in range(8):
    rates[8 + neutral, neutral, 2 + neutral % 2, 4 * neutral : 4 * neutral + 12] += 10.0
Y = ac.as_tensor(
    rng.poisson(rates),
    mode_names=["sender", "receiver", "action", "time"],
    labels=[countries, countries, actions, months],
)
model = ac.AlloCore(30, likelihood="poisson", burn_in=300, draws=10, thin=5, chains=4, seed=1, progress=False)
post = model.fit(Y.mask_diagonal()).posterior_
figure = ac.figures.motif(post)

# %%
# Headings name the parties, and stems show the classes of the pattern. The table has all pairs, how many would have the
# pattern by chance, and the probability of as many (:meth:`allocore.Consensus.motifs`).

print(post.consensus().motifs().drop(columns="pattern").round(3))
