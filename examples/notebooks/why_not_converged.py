# %% [markdown]
# # Why did it not converge?
# Four people would all like to differ from each other, but there are two sides to choose from. Belief propagation flips
# back and forth. `lw.explain` says why, and tries what could help.

# %%
import warnings

import torch

import loopwise as lw

graph = lw.graph.complete(4)
tables = {"unary": torch.tensor([0.0, 0.1]), "pair": torch.tensor([[-2.0, 2.0], [2.0, -2.0]])}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    beliefs = lw.BP()(graph, tables)
beliefs.status

# %%
why = lw.explain(beliefs)
why

# %% [markdown]
# The cycle is *frustrated*: its pairs cannot all have what they want. Each piece of advice has been tried; here is one.

# %%
damped = lw.BP(damping=0.5)(graph, tables)
assert damped.status.converged
damped

# %% [markdown]
# Which factors moved a belief? Each is left out, and inference run again.

# %%
for influence in lw.explain(damped).moved_by(0, most=3):
    print(influence)
