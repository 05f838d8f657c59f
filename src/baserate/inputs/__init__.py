"""Validation and conversion of what callers pass: rows, labels, rates, columns and dataframes."""
