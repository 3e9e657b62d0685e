"""The queue modelled: its rules, worlds around them to be searched, and a check of histories."""
