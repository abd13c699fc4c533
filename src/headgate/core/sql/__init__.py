"""The SQL that Headgate reads itself: predicates, expressions, queries, and what stored SQL may be."""
