"""Estimates of class rates that nobody knows, as sets: from validation data, or from a few labelled rows."""

from baserate.estimation.estimate import estimate

__all__ = ["estimate"]
