"""Analyses of predictions and adjustments: comparison, advice, sensitivity, theory, changes of single rows."""
