"""Pictures of plain values: boards, planes, continuations and curves, as SVG and PNG."""
