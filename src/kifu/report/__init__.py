"""Text, tables, charts and pages that show results."""
