"""
The core
========

The factors that the classes use, and those that they share.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.core(post, rows=14)

# %%
# Each row is a class, with its share of the expected counts on the left; the thin line on the bar is its 90%
# interval. Each panel is a mode, and each of its columns a factor.
#
# A grey square is a factor that only this class uses. Coloured dots in one column are classes that share a factor,
# joined by a line. Nearly all classes share one factor of months, because most airlines fly the same schedule all year.
# With CP all marks would be grey, because every class has its own factors.
