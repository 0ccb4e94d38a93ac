"""The one exception the package raises for input it cannot work with."""


class InputError(ValueError):
    """Input that cannot be used: the text says what was wrong, what was found and how to mend it.

    A `ValueError`, as scikit-learn's conventions ask; the command line prints it without a traceback.
    """
