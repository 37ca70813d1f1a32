"""
One class
=========

The profile of a single class in every mode, as wide as a page.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.one_class(post, 2)

# %%
# The number is that of the class in ``post.consensus().classes()`` and in all other figures. Modes whose labels have
# an order, such as months and hours, are drawn along an axis; the others name their heaviest labels.
#
# ``top=8`` names more labels, and ``threshold=0.01`` leaves out those with less than one percent.
