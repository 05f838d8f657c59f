"""Multi-label predictions: each label is a binary problem with its own rate."""

from baserate.multilabel.adjust import adjust_multilabel
from baserate.multilabel.adjustment import MultilabelAdjustment, MultilabelCertificate

__all__ = ["MultilabelAdjustment", "MultilabelCertificate", "adjust_multilabel"]
