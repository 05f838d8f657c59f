"""Helpers for all packages: array types, threads, paths, texts, tables, and files that are complete or not there."""
