"""What the tests of this room expect of refusals."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from newkinds import InputError


def refused(*parts: str) -> Any:
    """Expect an InputError that says all of `parts`, in order."""
    return pytest.raises(InputError, match="(?s)" + ".*".join(map(re.escape, parts)))


class Trap:
    """An object that, when unpickled, makes a folder."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)
