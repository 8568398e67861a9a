# %% [markdown]
# # A table with gaps
# Symptoms and a diagnosis, three cells in ten lost. Nothing is filled in: what is missing is summed out.

# %%
import numpy as np

from loopwise.apps import MRFClassifier
from loopwise.apps.table import ToOutputs

rng = np.random.default_rng(0)
flu = rng.random(300) < 0.4
fever = np.where(rng.random(300) < 0.1 + 0.7 * flu, "high", "none").astype(object)
cough = np.where(rng.random(300) < 0.2 + 0.5 * flu, "dry", "none").astype(object)
days = rng.normal(2 + 3 * flu, 1.0)
x = np.stack([fever, cough, days], axis=1)
x[rng.random(x.shape) < 0.3] = None
y = np.where(flu, "flu", "cold")

# %%
model = MRFClassifier(ToOutputs(), l2=0.5, iterations=30).fit(x[:200], y[:200])
accuracy = model.score(x[200:], y[200:])
assert accuracy > 0.75
print(f"{accuracy:.0%} right")
model

# %% [markdown]
# Probabilities for patients of whom little is known:

# %%
for patient in (["high", None, None], [None, None, 1.0], [None, None, None]):
    chances = model.predict_proba([patient])[0]
    print(patient, dict(zip(model.classes_.tolist(), chances.round(2).tolist(), strict=True)))

# %% [markdown]
# Some rows may count more than others (`sample_weight`), and more rows than fit memory may come batch by batch:

# %%
batches = ((x[first : first + 50], y[first : first + 50]) for first in range(0, 200, 50))
streamed = MRFClassifier(ToOutputs()).fit_batches(batches, classes=["cold", "flu"])
assert streamed.score(x[200:], y[200:]) > 0.7
streamed.predict(x[200:205])
