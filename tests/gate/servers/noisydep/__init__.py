"""A dependency that greets."""

print("loading optional extension")
