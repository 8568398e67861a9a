# %% [markdown]
# # Pixels with neighbours
# Noisy pictures of rectangles, labelled pixel by pixel, by five sweeps that were trained as five sweeps.

# %%
import numpy as np

import loopwise as lw
from loopwise.apps import GridCRF

rng = np.random.default_rng(0)
clean = np.zeros((8, 12, 12), dtype=int)
for image in clean:
    row, column = rng.integers(1, 5, 2)
    image[row : row + 6, column : column + 5] = 1
noisy = clean + rng.normal(0, 0.8, clean.shape)
lw.plot.image(noisy[7])

# %%
five = lw.BP(iterations=5, tolerance=0)
crf = GridCRF(inference=five, iterations=15, prior=lw.prior.L2(1e-3)).fit(noisy[:6], clean[:6])
alone, together = ((noisy[6:] > 0.5) == clean[6:]).mean(), crf.score(noisy[6:], clean[6:])
assert together > alone + 0.05
print(f"right pixels: {alone:.1%} by a threshold, {together:.1%} with neighbours")

# %%
lw.plot.image(crf.predict_marginals(noisy[7:])[0, ..., 1])

# %%
crf.history_
