"""
A network
=========

Which community acts on which, and by what; and the adjacency matrix in the order of the communities.
"""

import numpy as np

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.communities(post, modes=["origin", "destination"], by="carrier")

# %%
# Rows fly to columns. Both are communities: the factors that the classes have in the two modes, named by their heaviest
# labels. The area of a square is the share of all expected counts that go from one to the other, and its stripes are
# the carriers. A row with several squares is a factor of origins that several classes share.

# %%
# In a network, senders and receivers are the same nodes, so the modes need no names. This one is planted: three groups
# of twenty people, who mail within their group, and ask the next group for advice.

rng = np.random.default_rng(0)
group = rng.permutation(np.repeat([0, 1, 2], 20))
rates = np.stack([np.eye(3), np.roll(np.eye(3), 1, axis=1)], axis=2)  # by sender, receiver and layer
counts = rng.poisson(0.02 + 0.8 * rates[group][:, group])
names = [f"{'ABC'[each]}{number}" for number, each in enumerate(group)]
Y = ac.as_tensor(counts, mode_names=["sender", "receiver", "layer"], labels=[names, names, ["mail", "advice"]])
model = ac.AlloCore(8, burn_in=200, draws=10, thin=2, chains=4, seed=1, progress=False)
people = model.fit(Y.mask_diagonal()).posterior_
figure_2 = ac.figures.adjacency(people)

# %%
# Each tile is a pair, its shade the count over both layers. The nodes are in the order of their main communities
# (:meth:`allocore.Posterior.memberships`), and lines are the borders of these. Nobody mails themselves: the diagonal is
# not observed.

figure_3 = ac.figures.communities(people)
