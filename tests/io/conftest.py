# SPDX-License-Identifier: Apache-2.0
import pytest


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A cache of these tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENIZEN_CACHE", str(tmp_path_factory.mktemp("denizen")))
        yield
