"""Boards, planes and charts as SVG and PNG pictures."""
