"""Counts of coming periods: models of how the factors of time go on, and how good their forecasts were."""
