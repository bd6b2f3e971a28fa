"""abi.py: what is claimed of the code is asked of the code, not of its comments."""

from __future__ import annotations

import pytest

from dmcrypt_inline.trees.abi import CRYPTSETUP, FLAGS, NEW_FLAGS, broken_claims, without_comments

DRIVER = """\
	static const struct dm_arg _args[] = {
		{0, 8, "Invalid number of feature args"},
	};
	while (opt_params--) {
		if (!strcasecmp(opt_string, "no_read_workqueue"))
			set_bit(DM_CRYPT_NO_READ_WORKQUEUE, &cc->flags);
		else if (!strcasecmp(opt_string, "no_write_workqueue"))
			set_bit(DM_CRYPT_NO_WRITE_WORKQUEUE, &cc->flags);
	}
	DMEMIT(" submit_from_crypt_cpus");
	if (test_bit(DM_CRYPT_NO_READ_WORKQUEUE, &cc->flags))
		DMEMIT(" no_read_workqueue");
	if (test_bit(DM_CRYPT_NO_WRITE_WORKQUEUE, &cc->flags))
		DMEMIT(" no_write_workqueue");
	DMEMIT(" integrity:%u:%s");
	.version = {1, 22, 0},
"""
COMMAND = """\
	log_std((cad.flags & CRYPT_ACTIVATE_NO_READ_WORKQUEUE) ? " no_read_workqueue" : "",
		(cad.flags & CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE) ? " no_write_workqueue" : "");
	if (opt_perf_no_read_workqueue)
		*flags |= CRYPT_ACTIVATE_NO_READ_WORKQUEUE;
	if (opt_perf_no_write_workqueue)
		*flags |= CRYPT_ACTIVATE_NO_WRITE_WORKQUEUE;
	crypt_persistent_flags_set(cd, CRYPT_FLAGS_ACTIVATION, (cad.flags | stored) & flags);
	{ "perf-no_read_workqueue",'\\0', POPT_ARG_NONE, &opt_perf_no_read_workqueue, 0 },
	{ "perf-no_write_workqueue",'\\0', POPT_ARG_NONE, &opt_perf_no_write_workqueue, 0 },
	} else if (!strcmp(aname, "refresh")) {
		aname = "open";
		opt_refresh = 1;
"""


def test_code_that_keeps_every_claim_passes() -> None:
    assert broken_claims(DRIVER, NEW_FLAGS) == []
    assert broken_claims(COMMAND, CRYPTSETUP["src/cryptsetup.c"]) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('!strcasecmp(opt_string, "no_read', '!strcmp(opt_string, "no_read', "no_read_workqueue is parsed, in any"),
        ("set_bit(DM_CRYPT_NO_WRITE", "set_bit(DM_CRYPT_NO_READ", "no_write_workqueue is parsed, in any"),
        ("while (opt_params--)", "if (opt_params)", "no_read_workqueue is parsed, in any"),
        ("test_bit(DM_CRYPT_NO_WRITE", "test_bit(DM_CRYPT_NO_READ", "tables show no_write_workqueue where it is set"),
        ('DMEMIT(" integrity', 'DMEMIT(" more', "before integrity:"),
        ("22, 0", "23, 0", "the target's version is 1.22.0"),
        ("{0, 8,", "{0, 6,", "at most 8 optional arguments"),
    ],
)
def test_a_driver_that_breaks_a_claim_is_found(old: str, new: str, expected: str) -> None:
    assert old in DRIVER
    broken = broken_claims(f"/* {DRIVER} */\n{DRIVER.replace(old, new)}", NEW_FLAGS)
    assert expected in broken[0]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('" no_read_workqueue"', '"no_read_workqueue"', "status says no_read_workqueue"),
        ('aname = "open"', 'aname = "close"', "refresh is an open"),
        ("cad.flags | stored", "flags | stored", "--persistent stores the flags in force"),
        ("\tif (opt_perf_no_write_workqueue)", "\tif (0)", "--perf-no_write_workqueue sets the flag"),
    ],
)
def test_a_command_that_breaks_a_claim_is_found(old: str, new: str, expected: str) -> None:
    assert old in COMMAND
    (broken,) = broken_claims(COMMAND.replace(old, new), CRYPTSETUP["src/cryptsetup.c"])
    assert expected in broken


def test_today_s_mainline_has_numbers_and_measurements_of_its_own() -> None:
    broken = broken_claims(DRIVER, FLAGS)
    assert "the target's version is 1.29.0" in broken
    assert "a table has at most 10 optional arguments" in broken
    assert "measurements (IMA) have no_write_workqueue" in broken
    assert len(broken) == 4


def test_only_comments_are_taken_out() -> None:
    source = 'a /* "b" // */ = "/* c */"; // \'\nd = \'"\'; /*\n*/ e = "\\"//";\n'
    assert without_comments(source) == 'a   = "/* c */";  \nd = \'"\';   e = "\\"//";\n'
