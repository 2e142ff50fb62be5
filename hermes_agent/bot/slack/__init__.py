"""Slack: events, messages as Block Kit, Socket Mode and HTTP, by slack-bolt."""
