"""Settings for the doctests of the package and of the documentation."""

import importlib.util

collect_ignore = ["docs/conf.py", "docs/_ext"]  # need Sphinx; `make docs` runs them

if importlib.util.find_spec("torch") is None:  # `make test-torch` has it
    collect_ignore += ["src/baserate/torch", "docs/gpu.md"]
    collect_ignore_glob = ["src/baserate/passes/torch_*.py", "src/baserate/passes/triton_*.py"]
