"""Whether data sets and catalogues have positions or games in common."""
