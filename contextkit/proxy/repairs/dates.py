"""Dates and clocks as people and programs write them into a prompt.

Gives one pattern over bytes; knows nothing of requests.
"""

from __future__ import annotations

import re

_MONTH = (
    rb"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|"
    rb"Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY = rb"(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?)"
_TIME = rb"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?(?: ?(?:Z|UTC|GMT)\b|[+-]\d{2}:?\d{2})?"
_DATE = rb"\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}/\d{2}/\d{2}|" + (
    _MONTH + rb"\.? \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?|\d{1,2}(?:st|nd|rd|th|\.)? " + _MONTH + rb"\.?(?:,? \d{4})?"
)
_STAMP = rb"1[5-9]\d{8}(?:\d{3})?"
_MOMENT = rb"(?:" + _DAY + rb",? )?(?:" + _DATE + rb")(?:(?:T|,? (?:at )?)" + _TIME + rb")?"
DATES = re.compile(rb"(?:(?<![\w./-])|(?<=\\[nrt]))(?:" + _MOMENT + rb"|" + _TIME + rb"|" + _STAMP + rb")(?![\w/])")
"""A date, a clock, both, or a time stamp in seconds or milliseconds; in JSON text, where `\\n` may stand before it."""
