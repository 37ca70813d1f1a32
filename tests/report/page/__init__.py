"""The page of a run, most of it in a browser that all files of this folder share."""
