"""Fixtures for the tests of this room."""

import numpy as np
import pytest

from tests.data.feature_files import X


@pytest.fixture
def npy(tmp_path):
    """Features alone."""
    np.save(tmp_path / "birds.npy", X)
    return tmp_path / "birds.npy"
