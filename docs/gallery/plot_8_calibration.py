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
# The bars are a histogram of the positions of the counts in their predictive distributions. If predictions are
# calibrated, it is flat, up to the grey band. Busy cells, where a count is likely, say more than all cells together,
# because most cells of a sparse tensor are almost certainly zero.
#
# The Poisson model is not calibrated: in busy cells the bars at both ends are far too high, so counts are often lower
# or higher than expected. On the right, the dots are below the diagonal: intervals contain too few counts.

model.likelihood = "negative-binomial"
figure_2 = ac.figures.calibration(model.fit(split).posterior_)

# %%
# The negative binomial allows for counts that come in lumps, as flights do. Its 90% intervals are right. In the few
# busy cells, narrower intervals still contain somewhat too few counts.
