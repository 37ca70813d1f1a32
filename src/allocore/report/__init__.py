"""Everything that people see of a run: text on a terminal, notebooks, figures and the page.

It takes a posterior by the protocol `report.fit.Fit`. It may import the packages up to `forecast`; `results`, which has
the posterior, and everything after it may import this package.
"""
