"""A fitted shift without Python: as a SQL query, an ONNX model, or a function in Python or JavaScript."""

from baserate.deploy.code import to_code
from baserate.deploy.onnx_model import to_onnx
from baserate.deploy.sql import to_sql

__all__ = ["to_code", "to_onnx", "to_sql"]
