"""Say a call in another dialect: the operator, and a line of code to paste."""

from tconv.translation.translate import DIALECTS, translate
from tconv.translation.translation import Translation

__all__ = ["DIALECTS", "Translation", "translate"]
