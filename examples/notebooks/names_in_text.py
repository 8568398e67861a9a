# %% [markdown]
# # Names in text
# A linear-chain conditional random field marks names of people and places; it knows how sure it is.

# %%
import numpy as np

from loopwise.apps import Tagger
from loopwise.apps.chain import ChainLikelihood

rng = np.random.default_rng(0)
people, places = ["Ann", "Bob", "Eva", "Ian"], ["Rome", "Oslo", "Bonn"]


def sentence():
    name = [(rng.choice(people), "B-PER")]
    if rng.random() < 0.5:
        name.append((rng.choice(["Smith", "Brown", "Lee"]), "I-PER"))
    end = [("in", "O"), (rng.choice(places), "B-LOC")] if rng.random() < 0.6 else [("a", "O"), ("dog", "O")]
    return [*name, (rng.choice(["saw", "left", "likes"]), "O"), *end, (".", "O")]


text = [sentence() for _ in range(80)]
words, tags = ([[str(pair[place]) for pair in row] for row in text] for place in (0, 1))

# %%
tagger = Tagger(learner=ChainLikelihood(l2=0.5)).fit(words[:60], tags[:60])
report = tagger.evaluate(words[60:], tags[60:])
assert report.entities.f1 > 0.9
print(report)

# %%
tagger.history_

# %% [markdown]
# Words it never saw, and how sure it is of each tag:

# %%
new = ["Zoe", "Brown", "left", "Oslo", "."]
[chances] = tagger.predict_marginals([new])
for word, row in zip(new, chances, strict=True):
    print(f"{word:6s}", {tag: round(float(share), 2) for tag, share in zip(tagger.labels_, row, strict=True)})
