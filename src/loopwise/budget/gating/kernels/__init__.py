"""Compiled runs of messages that were chosen beforehand."""
