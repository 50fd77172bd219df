"""``python -m tconv``."""

import sys

from tconv.cli import main

sys.exit(main())
