"""The experiments of the paper as a program: predictions, shifts, adjusters, tables, figures, claims."""
