"""Settings for the doctests of the package and of the documentation."""

collect_ignore = ["docs/conf.py"]  # needs Sphinx; `make docs` runs it
