# %% [markdown]
# # Who is who
# Mentions of people in documents, grouped by whom they speak of. A walk that moves one mention at a time learns and
# decides.

# %%
from loopwise.apps import Coref
from loopwise.apps.coref import CorefReport, head_match, made_documents

documents = made_documents(12, seed=2, mentions=16)
train, test = documents[:9], documents[9:]
test[0]

# %%
coref = Coref(rounds=2, steps=1500, decode_steps=3000).fit(train)
rule = CorefReport.of(test, [head_match(document) for document in test]).mean.b_cubed
learnt = coref.evaluate(test).mean.b_cubed
assert learnt > rule
print(f"B-cubed F1: {rule:.2f} by equal head words, {learnt:.2f} learnt")

# %% [markdown]
# The same document with the entities that were found:

# %%
test[0].with_entities(coref.predict(test[:1])[0].tolist())
