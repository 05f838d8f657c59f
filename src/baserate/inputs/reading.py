"""Temporary."""

from baserate.inputs.validation import NUMBERED, Naming, Reading

__all__ = ["NUMBERED", "Naming", "Reading"]
