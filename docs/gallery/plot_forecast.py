"""
A forecast
==========

The coming periods, in total and for parts of the tensor, with their uncertainty.
"""

import allocore as ac

months = [f"2013-{month:02d}" for month in range(1, 13)]
Y = ac.load_flights().with_labels({"month": months})
model = ac.AlloCore(10, likelihood="negative-binomial", burn_in=100, draws=10, thin=2, chains=2, seed=1, progress=False)
post = model.fit(Y.select(month=slice("2013-01", "2013-09"))).posterior_
forecast = post.forecast(horizon=3)
figure = ac.figures.forecast(forecast, [{}, {"carrier": "JetBlue Airways"}, {"destination": "ORD Chicago O'Hare"}])

# %%
# Each panel is a sum of cells: all flights, those of one carrier, those to one airport. The line is the observed past.
# The fan is the forecast: its darkest band contains the middle of the distribution, and the palest one 90% of it. It
# widens with the horizon.
#
# A mode is time if its labels are periods, so the months get their year here. Nine months are too short to learn a
# season. :meth:`allocore.Forecast.evaluate` scores the forecast.

# %%
# The classes themselves over time, with the same forecast. The bands are 90% intervals of their expected counts.

figure_2 = ac.figures.over_time(post, forecast=forecast)

# %%
# ``kind="stacked"`` puts the classes on top of one another.

figure_3 = ac.figures.over_time(post, kind="stacked", forecast=forecast)
