"""What is computed on a block of rows: NumPy for every loss, compiled kernels for log loss and the Brier score."""
