"""The periods after the last one: time factors that continue, forecasts, and their scores.

It may import `classes` and everything before it. `report` and everything after it may import this package.
"""
