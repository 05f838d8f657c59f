"""Helpers for all packages: array types, threads, and files that are written completely or not at all."""
