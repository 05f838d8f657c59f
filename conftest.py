"""Settings for the doctests of the package and of the documentation."""

collect_ignore = ["docs/conf.py", "docs/_ext"]  # need Sphinx; `make docs` runs them
