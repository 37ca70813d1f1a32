"""
Traces
======

The path of every chain, from its first sweep to its last.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.traces(post)

# %%
# Each line is a chain. In grey is the burn-in, which is discarded. What follows should be level, without a trend:
# then the chain has settled. Chains that are level at different heights have settled in different modes of the
# posterior, which is common for these models. ``post.diagnose()`` says in words what that means for predictions and
# for intervals.
