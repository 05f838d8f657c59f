"""What callers pass: validation, reading of rows, labels, columns and dataframes."""
