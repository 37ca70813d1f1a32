"""Everything that people see of a run: text on a terminal, notebooks, figures and the page.

It takes a posterior by the protocol `report.fit.Fit`, and may import the packages up to `forecast`.
"""
