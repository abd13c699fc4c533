"""What is wrong with a lake, judged from what was seen of it: decisions without any action."""
