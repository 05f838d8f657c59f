"""The result of an adjustment: its numbers, its guarantee, its text and its saved form."""
