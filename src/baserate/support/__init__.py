"""Helpers for all packages: array types, threads, paths, text, and files that are written completely or not at all."""
