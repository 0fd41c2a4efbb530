"""Loaded by Python at its start in every process that a test starts: its folder is on PYTHONPATH (see tests/conftest.py)."""

from importlib import import_module

import_module("write_audit").install()
