"""Telegram: the second way in, and the way back to its senders."""
