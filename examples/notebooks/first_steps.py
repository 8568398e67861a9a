# %% [markdown]
# # First steps
# A graph of variables and factors, belief propagation, and a status that says how far to trust it.

# %%
import torch

import loopwise as lw

names = lw.formats.Vocabulary(("rain", "sprinkler", "wet"), (("no", "yes"),) * 3)
graph = lw.FactorGraph([2, 2, 2], {"prior": [[0], [1]], "grass": [[0, 1, 2]]}, vocabulary=names)
graph

# %% [markdown]
# Numbers come apart from structure: log-potentials, one tensor a group of factors.

# %%
wet = torch.tensor([[[0.99, 0.01], [0.1, 0.9]], [[0.2, 0.8], [0.01, 0.99]]]).log()
potentials = {"prior": torch.tensor([[0.8, 0.2], [0.6, 0.4]]).log(), "grass": wet[None]}
beliefs = lw.BP()(graph, potentials, {"wet": "yes"})
beliefs

# %% [markdown]
# The grass is wet: rain and the sprinkler are both more probable than before. If the sprinkler was on, rain is not
# needed to explain it.

# %%
explained = lw.BP()(graph, potentials, {"wet": "yes", "sprinkler": "yes"})
assert explained["rain"]["yes"] < beliefs["rain"]["yes"]
explained["rain"]

# %% [markdown]
# This graph has no cycle, so beliefs are exact, and the status says so. On a grid they are not; exact inference tells
# how far off they are.

# %%
grid = lw.grid(5, 5)
tables = lw.TablePotentials.random(grid, seed=0).requires_grad_(False)
approximate, exact = lw.BP()(grid, tables), lw.Exact()(grid, tables)
print(f"off by at most {float((approximate.states - exact.states).abs().max()):.3f}")
approximate.status
