"""Values that every other room shares: spans, documents, eval items, words, tables, plugins, errors."""
