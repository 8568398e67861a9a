"""What chains look at: words through templates, sequences of feature vectors."""
