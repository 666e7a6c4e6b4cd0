"""The code under test. One of its functions was left with a debug print."""


def add(a: int, b: int) -> int:
    return a + b


def multiply(a: int, b: int) -> int:
    print("multiplying", a, b)
    return a * b
