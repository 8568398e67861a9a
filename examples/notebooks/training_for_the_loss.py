# %% [markdown]
# # Training for the loss
# A grid in which neighbours tend to agree, few variables given, many never seen, three sweeps of belief propagation.
# The same model is trained twice: by likelihood, and for the squared error of its own beliefs after three sweeps.

# %%
import numpy as np
import torch

import loopwise as lw

graph = lw.grid(8, 8)
truth = lw.TablePotentials(graph, {"unary": torch.zeros(2), "pair": torch.eye(2)})
kinds = [lw.Role.INPUT, lw.Role.HIDDEN, lw.Role.OUTPUT]
roles = np.random.default_rng(0).choice(kinds, 64, p=[0.1, 0.4, 0.5])
train, test = lw.sample_examples(truth, count=(256, 256), roles=roles, seed=0, burn_in=500)
train

# %%
systems, histories = {}, {}
for name, goal in {"likelihood": lw.loss.SurrogateLikelihood(), "the loss": lw.loss.MSE()}.items():
    systems[name] = lw.System(lw.TablePotentials(graph), lw.BP(iterations=3, tolerance=0))
    adam = lambda params: torch.optim.Adam(params, lr=0.03)  # noqa: E731
    histories[name] = lw.fit(systems[name], train, goal, optimizer=adam, batch=64, epochs=20)
histories["the loss"]

# %%
errors = {name: lw.evaluate(system, test, lw.loss.MSE()) for name, system in systems.items()}
assert errors["the loss"] < errors["likelihood"]
for name, error in errors.items():
    print(f"trained by {name}: squared error {error:.4f}")

# %% [markdown]
# Beliefs of one example after three sweeps, the budget it was trained for:

# %%
system = systems["the loss"]
lw.plot.beliefs(system.inference(graph, system.potentials, test[0].evidence.clamp()[0]))
