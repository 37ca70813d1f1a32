"""The explorer: a self-contained HTML page that shows the classes of a run in any browser."""
