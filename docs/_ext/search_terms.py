"""The words under which the search of the site finds a page first.

Sphinx ranks a page first if the query is one of its main index entries. The dictionary below names these entries. The
build warns if a page does not contain all words of an entry. The terms of the glossary are main index entries,
too. ``scorer.js`` ranks a page about a subject before the entry of the glossary.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)

TERMS = {
    "installation": ["installation", "install", "pip"],
    "quickstart": ["quickstart", "notebook"],
    "which-procedure": ["which procedure", "advise"],
    "guides/undersampling": [
        "undersampling", "oversampling", "SMOTE", "class weights", "class_weight", "scale_pos_weight", "imbalanced",
        "prior correction",
    ],
    "guides/new-hospital": ["prevalence", "hospital", "diagnostic"],
    "guides/monthly-batches": ["monthly", "batches", "batch"],
    "guides/survey-counts": ["survey", "design effect", "counts", "survey counts"],
    "guides/parquet-larger-than-memory": [
        "parquet", "larger than memory", "out of core", "chunks", "stream parquet",
    ],
    "guides/cluster": ["cluster"],
    "guides/wrap-a-fitted-model": [
        "calibration", "FrozenEstimator", "CalibratedClassifierCV", "prefit", "wrap classifier",
    ],
    "guides/read-the-report": ["read report", "read the report", "printed result"],
    "deployment": ["SQL", "ONNX", "JavaScript", "deployment", "export", "BigQuery", "onnxruntime"],
    "clusters": ["dask", "spark", "ray"],
    "object-stores": ["S3", "object store", "fsspec"],
    "databases": ["DuckDB", "LazyFrame", "ADBC"],
    "gpu": ["GPU", "torch", "CUDA", "tensor"],
    "files": ["CSV", "arrow", "command line"],
    "scikit-learn": ["scikit-learn", "sklearn", "pandas", "polars", "dataframe"],
    "multilabel": ["multi-label", "multilabel"],
    "zeros": ["zeros", "logits"],
    "uncertain-rates": ["bounds", "confidence"],
    "fixed-shift": ["certify", "drift", "fixed shift", "old shift"],
    "unknown-rates": [
        "quantification", "unknown prevalence", "BBSE", "EM", "label shift estimation", "unknown rates", "draw rows",
    ],
    "groups": ["groups", "per group", "margins"],
    "guides/rates-per-group": ["per region", "rates per region", "per clinic", "small area"],
    "comparing": ["labelled rows"],
    "comparison": ["QuaPy", "probcal", "POT", "netcal"],
    "displays": ["pictures", "plot"],
    "reports": ["report"],
    "app": ["browser", "without code", "what if"],
    "theory": ["dual", "theorem", "proof"],
    "benchmarks": ["benchmarks"],
    "api/baserate.losses.Brier": ["brier", "brier score"],
    "api/baserate.losses.Log": ["log loss"],
    "api/baserate.Certificate": ["certificate"],
    "glossary": ["King-Zeng"],  # the glossary writes it with a dash
}  # fmt: skip


def plain(text: str) -> str:
    """Lower case, with every dash as a hyphen and every space alike."""
    return " ".join(re.sub("[\N{EN DASH}\N{NON-BREAKING HYPHEN}]", "-", text).lower().split())


class AddIndexEntries(SphinxTransform):
    """Give a page its main index entries."""

    default_priority = 800  # before Sphinx collects index entries (850)

    def apply(self) -> None:
        """Put the entries at the top of the first section."""
        section = self.document.next_node(nodes.section)
        terms = TERMS.get(self.env.docname, [])
        if section is None or not terms:
            return
        text = plain(self.document.astext())
        for term in terms:
            if not all(word in text for word in plain(term).split()):
                logger.warning(
                    "the page has the search term %r, but does not contain its words", term, location=section
                )
        entries = [("single", term, section["ids"][0], "main", None) for term in terms]
        section.insert(1, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(AddIndexEntries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
