"""
Traces
======

The log-likelihood and other statistics of every chain, sweep by sweep.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.traces(post)

# %%
# Each line is a chain. The burn-in, in grey, is discarded. A chain that is level after it has settled.
# Chains that are level at different heights have found different solutions, which is common for these
# models. ``post.diagnose()`` says whether predictions and classes can be used all the same.
