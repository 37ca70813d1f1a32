"""
Classes and factors in use
==========================

The numbers of classes and factors that the draws use.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.effective_shape(post)

# %%
# Each panel is a histogram over all draws of all chains. The budget allows 20 classes and 20 factors in each mode; a
# model that shares factors uses far fewer. Here a few factors are enough for the months, while destinations need many.
#
# If all draws use all classes, a larger budget may find more. If many classes are empty, a smaller one is enough.
