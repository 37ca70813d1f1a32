"""
How much the largest classes explain
====================================

The cumulative share of the largest classes.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.mass(post)

# %%
# The curve is steep if few classes explain most of the counts. Where it is flat, further classes add little, which is a
# first hint for the budget. To choose the budget by prediction, see :func:`allocore.select_budget`.
#
# Shares of the consensus need not add up to one: the rest is in classes on which the chains differ.
