"""SQL on Spark, over the tables of a lake, with Spark's own parser."""
