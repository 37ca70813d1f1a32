"""The periods after the last one: time factors that continue, forecasts, and their scores.

May import everything up to `classes`; `report`, `results` and what comes after them may import it.
"""
