"""The parts of ``tools/fuzz.py``: random problems, and checks of their answers that do not use the library."""
