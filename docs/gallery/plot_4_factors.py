"""
The factors of a mode
=====================

A heat map of all factors that the classes use in one mode.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.factors(post, "hour")

# %%
# Labels with an order, such as hours, keep it: every row is a factor, and darker hours have a larger share of it. The
# bars next to the rows show the share of all expected counts in classes that use the factor.

figure_2 = ac.figures.factors(post, "carrier", most=16)

# %%
# Labels without an order are the rows, grouped by the factor in which they are heaviest, and factors are the columns.
# Most carriers have their own factor; a column with several dark cells is a group of similar carriers.
