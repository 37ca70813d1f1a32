"""
Are the intervals right?
========================

Calibration on held-out cells: the probability integral transform, and the coverage of intervals.
"""

import allocore as ac

split = ac.hold_out(ac.load_flights(), fraction=0.02, along="month", seed=1)
model = ac.AlloCore(budget=20, burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False)
figure = ac.figures.calibration(model.fit(split).posterior_)

# %%
# The bars are a histogram of where the counts fall in their predictive distributions. If predictions are right it is
# flat, up to the grey band. Busy cells, where a count is likely, say more than all cells together, since most cells
# of a sparse tensor are surely zero.
#
# This is a Poisson model, and it is wrong: in busy cells the bars at both ends are far too high, so counts are often
# lower or higher than expected. On the right, intervals hold fewer counts than they promise: the dots are below the
# diagonal.

model.likelihood = "negative-binomial"
figure_2 = ac.figures.calibration(model.fit(split).posterior_)

# %%
# The negative binomial expects counts in lumps, as flights come. Its 90% intervals are right. In the busy cells, of
# which there are few, narrower intervals still hold somewhat fewer counts than they promise.
