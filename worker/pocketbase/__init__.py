"""PocketBase as the Python side sees it: a session, the queue, wake-ups."""
