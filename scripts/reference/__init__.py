"""The reference pages, made from the code: `make reference`. A test says if one of them is stale."""
