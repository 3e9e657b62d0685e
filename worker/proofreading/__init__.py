"""Optional proofreading: a language model corrects the raw text, and is not trusted."""
