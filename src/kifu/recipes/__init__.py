"""Recipes, and the builds of data sets and archives from them."""
