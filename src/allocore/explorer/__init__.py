"""The explorer: one page of HTML, with all it needs inside, to look through the classes of a run in any browser."""
