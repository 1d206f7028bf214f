"""The one exception of this package."""


class Error(Exception):
    """One line: what is wrong, and where."""

    def __init__(self, text):
        super().__init__(" ".join(str(text).split()))
