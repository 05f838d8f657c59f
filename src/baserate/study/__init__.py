"""The paper's experiments as a program: predictions, shifts, adjusters, tables, figures and claims."""
