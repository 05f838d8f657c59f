"""
How far do single rows move?
============================

The guarantee of an adjustment is about the mean loss of all rows. Single rows can move far or not at all, and some get
worse. This example shows which ones.

The data are 178 wines of three cultivars, which come with scikit-learn. A model predicts the cultivar from three
measurements. In the new cellar the first cultivar is rare. We simulate it by removing wines at random.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

x, y = load_wine(return_X_y=True, as_frame=True)
cultivars = ["cultivar 0", "cultivar 1", "cultivar 2"]
model = make_pipeline(StandardScaler(), LogisticRegression())
probs = cross_val_predict(model, x[["alcohol", "ash", "total_phenols"]], y, cv=5, method="predict_proba")
rng = np.random.default_rng(0)
kept = rng.random(len(y)) < np.array([0.15, 0.6, 1.0])[y]
p, labels = pd.DataFrame(probs[kept], columns=cultivars), y[kept].to_numpy()
rates = dict(zip(cultivars, np.bincount(labels) / len(labels), strict=True))
result = br.adjust(p, rates)
result

# %%
# Each row is a line from its predicted to its adjusted probabilities. A corner of the triangle is a certain
# prediction. Rows in the corners hardly move. Rows that are far from all corners move most.
br.MovementDisplay.from_predictions(p, result.probs)
plt.show()

# %%
# We measure how far a row moved by its largest change of a probability. The loss of a row is the negative logarithm of
# the probability of its true class.
before, after = p.to_numpy(), result.probs.to_numpy()
moved = np.abs(after - before).max(axis=1)
row = np.arange(len(labels))
loss_change = np.log(before[row, labels]) - np.log(after[row, labels])
certainty = pd.cut(before.max(axis=1), [0, 0.6, 0.8, 0.95, 1], labels=["up to 0.6", "to 0.8", "to 0.95", "above 0.95"])
frame = pd.DataFrame(
    {
        "largest probability before": certainty,
        "moved": moved,
        "other decision": before.argmax(axis=1) != after.argmax(axis=1),
        "loss rose": loss_change > 0,
    }
)
by_certainty = frame.groupby("largest probability before", observed=True)
table = by_certainty.mean().assign(rows=by_certainty.size()).round(3)
table

# %%
# Wines of the rare cultivar get worse on average: the new rates make their true class less likely. Wines of the
# cultivar that became most common get better. In total they gain more than the others lose.
by_class = pd.Series(loss_change).groupby(np.array(cultivars)[labels]).agg(["size", "mean", "max", "sum"])
by_class.round(3)

# %%
# The geometry of one row: the wine that moved most. The display shows adjustment for the Brier score, where bounded
# general adjustment (BGA) and unbounded general adjustment (UGA) differ. The curves connect predictions that are
# equally far away.
br.GeometryDisplay.from_predictions(p, list(rates.values()), row=int(moved.argmax()))
plt.show()

# %%
print(
    f"The adjustment moved a probability by {moved.mean():.2f} on average and by {moved.max():.2f} at most; rows that "
    f"were predicted with more than 0.95 moved by {table.loc['above 0.95', 'moved']:.2f}; "
    f"{frame['other decision'].mean():.0%} of the rows get another most probable class, the mean log loss fell by "
    f"{-loss_change.mean():.3f}, and that of {frame['loss rose'].mean():.0%} of the rows rose."
)
