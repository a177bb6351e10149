"""Give the package a description whose links also work outside the repository: README.md with absolute links."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
README = (ROOT / "README.md").read_text("utf-8")
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"]

setup(
    long_description=re.sub(r'(\]\(|(?:src|href)=")(?!https?:|#)', rf"\1{REPOSITORY}/", README),
    long_description_content_type="text/markdown",
)
