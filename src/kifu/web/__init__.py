"""The local web application: catalogues and nets in a browser."""
