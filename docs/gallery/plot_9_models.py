"""
Compare models
==============

The predictive density of held-out cells, for several models and budgets.
"""

import allocore as ac

quick = {"burn_in": 30, "draws": 5, "thin": 2, "chains": 1}
models = {"allocore": ac.AlloCore(**quick), "cp": ac.CP(5, **quick)}
found = ac.compare(ac.load_flights(), models, budgets=[5, 20], splits=3, hold_out=0.02, along="month")
figure = ac.figures.ppd(found.table, against="budget")

# %%
# Higher is better. A dot is the median over the splits, and its bar shows the quartiles. The bars overlap because a
# split that is hard for one model is hard for all, so they do not show whether a difference is clear: ``print(found)``
# compares the models within splits.
#
# ``against="seconds"`` shows what a better prediction costs in time.
