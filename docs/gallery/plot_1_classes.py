"""
A page of classes
=================

Every row is a class, every column a mode.
"""

import allocore as ac

model = ac.AlloCore(
    budget=20, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=4, seed=1, progress=False
)
post = model.fit(ac.load_flights()).posterior_
figure = ac.figures.classes(post, rows=4)

# %%
# Each stem is a label; its height is the share of the label in the class. The heaviest labels are named, the others are
# grey. Pale bars and bands behind the stems are 90% intervals over the draws that have the class.
#
# The title of each class gives its share of all expected counts and how many chains have it. Under the name of a mode,
# "shared with class 1 (0.75)" means that the two classes use the same factor with probability 0.75.
#
# ``numbers=[0, 3]`` draws certain classes, and ``draw="best"`` those of the best single draw.
