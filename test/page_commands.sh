#!/bin/sh
# What the README, the tutorials and the recipes tell people to type works; each block of theirs says who runs it.
cd "$(dirname "$0")/.." || exit 1
exec scripts/page-commands --build "$MDNN_BUILD" README.md docs/tutorial/*.md docs/recipes/*.md
