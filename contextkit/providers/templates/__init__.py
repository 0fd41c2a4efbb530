"""A model's own chat template: what it makes of a request, and whether that stays a prefix of the next one (extra
`templates`).
"""

from contextkit.providers.templates.stability import check_prefix_stable as check_prefix_stable
from contextkit.providers.templates.template import Template as Template
