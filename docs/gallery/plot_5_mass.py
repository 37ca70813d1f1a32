"""
How many classes hold how much
==============================

The expected counts of the largest classes, added up.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.mass(post)

# %%
# The curve climbs steeply where few classes explain most of the counts. Where it is flat, further classes add little:
# a first hint on the budget. For a choice by prediction see :func:`allocore.select_budget`.
#
# Shares of the consensus need not add up to one. The rest is in classes on which the chains differ.
