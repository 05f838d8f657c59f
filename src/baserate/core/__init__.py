"""The contract between rows and mathematics, the dual problem, and the search for the shift."""
