import pytest

from dmcrypt_inline.trees.targets import MEASURED, MEASURED_PATCHES, NATIVE, NATIVE_DEBUG, NATIVE_PATCH, TARGETS, Target


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_each_target_has_its_files(target: Target) -> None:
    assert target.series.is_file()
    assert target.cover.is_file()
    assert list(target.patches.glob("*.patch"))
    assert not [path for paths in target.fragments.values() for path in paths if not path.is_file()]
    assert bool(target.data(NATIVE_PATCH)) == bool({NATIVE, NATIVE_DEBUG} & target.fragments.keys())
    assert bool(target.data(MEASURED_PATCHES)) == (MEASURED in target.fragments)
