"""Give the package a description without links that lead nowhere outside the repository: README.md without these."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
README = (ROOT / "README.md").read_text("utf-8")
RELATIVE = r"\((?!https?:|#)[^)]*\)"

setup(
    long_description=re.sub(rf"\[([^]]*)\]{RELATIVE}", r"\1", re.sub(rf"!\[[^]]*\]{RELATIVE}\n+", "", README)),
    long_description_content_type="text/markdown",
)
