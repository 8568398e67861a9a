"""Pictures. Above the stages: nothing in the core imports this."""
