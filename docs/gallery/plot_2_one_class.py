"""
One class
=========

The profile of one class in every mode, one page wide.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.one_class(post, 2)

# %%
# Classes have the same numbers as in ``post.consensus().classes()`` and in all other figures. Modes whose labels have
# an order, such as months and hours, are drawn along an axis; for the others, the heaviest labels are named.
#
# ``top=8`` names more labels, and ``threshold=0.01`` leaves out those with less than one percent.
