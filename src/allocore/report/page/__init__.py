"""The report of a run as one HTML page: `payload` decides what it shows, the JavaScript in `client` draws it.

It may import what `report` may; only `results` imports it.
"""
