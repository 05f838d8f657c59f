"""
What if nobody knows the new class rates?
=========================================

A classifier of handwritten digits is used on batches whose class rates are unknown. Labelled validation digits are at
hand. We compare three ways to adjust the predictions: to the point estimate of the EM algorithm, to the set of
:func:`baserate.estimate`, and to the set that 100 labels of the batch give.

The batches are simulated in two ways. In some, only the class rates differ (label shift), as the methods without labels
assume. In the others, the digits are also blurred by noise, which violates this assumption.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import baserate as br

x, y = load_digits(return_X_y=True)
x = x[:, ::3] / 16  # every third pixel: with all pixels there are hardly any errors
rng = np.random.default_rng(0)
part = rng.permutation(len(y)) % 3  # one third each for training, validation and new batches
model = LogisticRegression(max_iter=2000).fit(x[part == 0], y[part == 0])
p_val, y_val = model.predict_proba(x[part == 1]), y[part == 1]
x_new, y_new = x[part == 2], y[part == 2]

# %%
# One batch. The printed rates have an interval for each digit, and the condition under which they are right.


def draw_batch(noise):
    """Draw 500 digits with random class rates; ``noise`` is the standard deviation of the noise of a pixel."""
    rates = rng.dirichlet(np.full(10, 0.5))
    chances = rates[y_new] / np.bincount(y_new)[y_new]
    rows = rng.choice(len(y_new), 500, p=chances / chances.sum())
    return model.predict_proba(x_new[rows] + noise * rng.normal(size=(500, x.shape[1]))), y_new[rows]


p, labels = draw_batch(0.0)
rates = br.estimate(p, probs_val=p_val, y_val=y_val)
rates

# %%
# Many batches. A batch whose rates are refused stays as predicted. The class rates in some batches are extreme, and EM
# follows every error of the model.


def em_rates(p, old_rates):
    """The point estimate of Saerens, Latinne and Decaestecker (2002)."""
    rates = old_rates
    for _ in range(200):
        weighted = p * rates / old_rates
        rates = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
    return np.maximum(rates, 1e-6) / np.maximum(rates, 1e-6).sum()


rows = []
for name, noise in {"only the rates differ": 0.0, "also noise": 0.2}.items():
    for _ in range(60):
        p, labels = draw_batch(noise)
        drawn = br.draw_rows(p, 100, random_state=rng)
        found = {
            "EM": em_rates(p, np.bincount(y_val) / len(y_val)),
            "br.estimate": br.estimate(p, probs_val=p_val, y_val=y_val, on_refuted="everything"),
            "100 labels": br.estimate(p, labelled=drawn, y_labelled=labels[drawn.rows]),
        }
        before = log_loss(labels, p, labels=range(10))
        for method, known in found.items():
            after = log_loss(labels, br.adjust(p, known).probs, labels=range(10))
            refused = method == "br.estimate" and known.refuted
            rows.append({"batches": name, "method": method, "change": after - before, "refused": refused})
changes = pd.DataFrame(rows)
summary = changes.groupby(["batches", "method"], sort=False).agg(
    mean=("change", "mean"),
    worst=("change", "max"),
    raised=("change", lambda c: (c > 1e-9).mean()),
    refused=("refused", "mean"),
)
summary.round(3)

# %%
# Points above the line are batches in which the adjustment raised the loss.
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
styles = {"EM": ("#E69F00", "o"), "br.estimate": ("#0072B2", "D"), "100 labels": ("#009E73", "s")}
for i, batches in enumerate(changes["batches"].unique()):
    for j, (method, (color, marker)) in enumerate(styles.items()):
        shown = changes[(changes["batches"] == batches) & (changes["method"] == method)]["change"]
        at = i + 0.26 * (j - 1) + rng.uniform(-0.08, 0.08, len(shown))
        label = method if i == 0 else None
        ax.scatter(at, shown, s=12, color=color, marker=marker, alpha=0.6, linewidths=0, label=label)
ax.axhline(0, color="#666666", linewidth=0.8)
ax.set_xticks([0, 1], list(changes["batches"].unique()))
ax.set_ylabel("change of log loss (below 0 is better)")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
em, ours, few = (summary.loc[("also noise", method)] for method in styles)
print(
    f"With noise, the point estimate of EM raised the loss in {em['raised']:.0%} of the batches. br.estimate refused "
    f"{ours['refused']:.0%} of them and raised the loss in {ours['raised']:.0%}. 100 labels raised it in "
    f"{few['raised']:.0%}."
)
