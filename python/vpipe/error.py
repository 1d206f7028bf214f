"""The exception class of this package."""


class Error(Exception):
    """An error in a file, an argument or a run; its text is one line."""

    def __init__(self, text):
        super().__init__(" ".join(str(text).split()))
